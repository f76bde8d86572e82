// Traces: what a real program did (`hakmem-stress capture`), as a file of ops. A trace is a program whose links are kept
// (program.h), with limits of its own: it may have many more ops and slots than fit into memory twice. So writer and
// reader hold one frame of it, and not the whole.
//
// Format, little-endian: a header of 64 bytes with the magic of program_file.h and version 2; then frames of at most
// kTraceFrameOps ops: the number of ops (4), the compressed bytes (4), and those bytes (compress.h). Uncompressed, a
// frame is the ops byte by byte: all first bytes, all second bytes, and so on, which compresses to half.
//
// Law (trace_check): every op names a seat and a slot of the header; in file order each linked op has its turn; a slot
// changes its thread only at a link.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/mapped.h"
#include "engine/op/op.h"
#include "program/compress.h"
#include "program/program.h"

namespace stress {

inline constexpr std::uint8_t kTraceVersion = 2;
inline constexpr std::uint32_t kTraceFrameOps = 4096;
inline constexpr std::uint64_t kTraceOpsMax = std::uint64_t{1} << 32;
inline constexpr std::uint32_t kTraceSlotsMax = 1U << 28;

// What the header says.
struct TraceFigures {
    std::uint32_t threads = 1, slots = 1;
    std::uint64_t ops = 0;
    std::uint64_t blocks = 0, bytes = 0; // allocated; realloc adds its new bytes, and no block
    std::uint64_t peak_live_bytes = 0;
};

// Holds the compressed file until it is written: about 1.5 bytes an op.
class TraceWriter {
  public:
    // `level`: of the compression.
    TraceWriter(const TraceFigures &figures, int level);

    void add(const Op &op);
    // Call it last. Returns what is wrong, or nothing; as result_write (engine/base/file.h).
    std::string write(const std::string &path);

  private:
    void flush_frame();

    int level_;
    std::vector<Op> frame_;
    std::vector<char> planes_;
    std::string content_;
};

// Reads frames one after another. Takes memory from the system when it is made, and none later.
class TraceReader {
  public:
    // `fault` says what is wrong with the file as a whole, or is empty.
    TraceReader(const std::string &path, std::string &fault);
    ~TraceReader();
    TraceReader(const TraceReader &) = delete;
    TraceReader &operator=(const TraceReader &) = delete;

    const TraceFigures &figures() const { return figures_; }

    // The next ops, at most kTraceFrameOps; 0: the end. False: the frame is corrupt.
    bool next(Op *out, std::size_t &count);

  private:
    std::string walk(std::uint64_t size_bytes);

    int fd_;
    TraceFigures figures_;
    std::uint64_t at_ = 0, end_ = 0;
    Mapped<char> packed_, planes_;
    Decompressor decompressor_;
};

// Whether these first bytes of a file are those of a trace, and whether the file is one.
bool trace_begins(const void *start, std::size_t size_bytes);
bool trace_is(const std::string &path);

// Reads all of the file and holds it to the law. Empty, or what is wrong. `each` gets the ops in file order.
std::string trace_check(const std::string &path, TraceFigures &figures, void (*each)(void *to, const Op &op) = nullptr,
                        void *to = nullptr);

// Reads a trace as a program, if it is short enough. Empty, or what is wrong.
std::string trace_program(const std::string &path, Program &program);

} // namespace stress
