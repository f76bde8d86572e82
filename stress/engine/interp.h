// The interpreter applies one op to the subject and tells the oracle. Each seat has its own.
//
// An op is one call of malloc or a relative, free or realloc. With check off it touches one byte of each
// fresh block, as the classic benchmarks do, and judges nothing.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "engine/block.h"
#include "engine/counters.h"
#include "engine/oracle.h"
#include "engine/subject.h"
#include "engine/support.h"

namespace stress {

enum class Kind : std::uint8_t { Malloc, Calloc, AlignedAlloc, PosixMemalign };
inline constexpr std::size_t kKindCount = 4;

struct Request {
    Kind kind;
    std::size_t size_bytes;
    std::size_t align_bytes;  // 0 for Malloc and Calloc
};

class Interp {
public:
    Interp(Oracle &oracle, Counters &counters, Support support, std::uint32_t seat, bool check)
        : oracle_(oracle), counters_(counters), support_(support), seat_(seat), check_(check)
    {
    }

    bool checks() const { return check_; }

    // Each returns false after a failure; the run is then to stop, and `block` may be empty.
    bool allocate(const Request &request, Block &block)
    {
        return check_ ? allocate_checked(request, block) : allocate_plain(request.size_bytes, block);
    }

    bool release(Block &block) { return check_ ? release_checked(block) : release_plain(block); }

    // Checked mode only.
    bool reallocate(Block &block, std::size_t size_bytes);

    // Requests that cannot be met: NULL, ENOMEM, and the block given to realloc stands.
    bool probe_impossible();

    Witness witness() const { return {seat_, read(counters_.ops)}; }

private:
    bool allocate_plain(std::size_t size_bytes, Block &block)
    {
        void *start = subject::call_malloc(size_bytes);
        if (start == nullptr) [[unlikely]] return exhausted("malloc", size_bytes, block);
        *static_cast<volatile unsigned char *>(start) = 1;
        block = {start, size_bytes, 0, 0};
        count_allocated(size_bytes);
        return true;
    }

    bool release_plain(Block &block)
    {
        subject::call_free(block.start);
        block.start = nullptr;
        count_freed(block.size_bytes);
        return true;
    }

    bool allocate_checked(const Request &request, Block &block);
    bool release_checked(Block &block);
    bool exhausted(const char *call, std::size_t size_bytes, Block &block);
    std::size_t usable_bytes(void *start) const;
    std::uint64_t generation() const { return generation_make(seat_, read(counters_.ops)); }

    void count_allocated(std::size_t size_bytes)
    {
        bump(counters_.ops, 1);
        bump(counters_.blocks_allocated, 1);
        bump(counters_.bytes_allocated, size_bytes);
    }

    void count_freed(std::size_t size_bytes)
    {
        bump(counters_.ops, 1);
        bump(counters_.blocks_freed, 1);
        bump(counters_.bytes_freed, size_bytes);
    }

    Oracle &oracle_;
    Counters &counters_;
    Support support_;
    std::uint32_t seat_;
    bool check_;
};

}  // namespace stress
