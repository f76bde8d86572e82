// Compression of the frames of a trace, by libzstd. A build without that library has compress_none.cc instead, and says
// so where it meets a trace.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/base/mapped.h"

namespace stress {

// Whether this build can compress and decompress.
bool compress_available();

// Appends the compressed form of `bytes`, with a checksum of their content. `level` as in zstd, 1 to 19. Allocates.
void compress_append(std::string &out, std::span<const char> bytes, int level);

// Decompresses with memory of its own, taken from the system when it is made. One thread at a time.
class Decompressor {
  public:
    Decompressor();

    // False: the frame is corrupt, or does not fill `out` exactly.
    bool into(std::span<char> out, std::span<const char> frame);

  private:
    Mapped<char> memory_;
    void *context_ = nullptr;
};

} // namespace stress
