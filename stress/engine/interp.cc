#include "engine/interp.h"

#include <cstdint>

namespace stress {
namespace {

// No call of the subject may leave this value changed on success.
constexpr int kErrnoMark = 4711;

const char *kind_name(Kind kind)
{
    switch (kind) {
    case Kind::Malloc: return "malloc";
    case Kind::Calloc: return "calloc";
    case Kind::AlignedAlloc: return "aligned_alloc";
    case Kind::PosixMemalign: return "posix_memalign";
    }
    return "?";
}

void *call(const Request &request)
{
    switch (request.kind) {
    case Kind::Malloc: return subject::call_malloc(request.size_bytes);
    case Kind::Calloc: return subject::call_calloc(1, request.size_bytes);
    case Kind::AlignedAlloc: return subject::call_aligned_alloc(request.align_bytes, request.size_bytes);
    case Kind::PosixMemalign: {
        void *start = nullptr;
        const int error = subject::call_posix_memalign(&start, request.align_bytes, request.size_bytes);
        if (error == 0) return start;
        errno = error;  // it reports by value
        return nullptr;
    }
    }
    return nullptr;
}

}  // namespace

std::size_t Interp::usable_bytes(void *start) const
{
    return support_.usable_size ? subject::call_usable_size(start) : Oracle::kUsableUnknown;
}

bool Interp::exhausted(const char *call_name, std::size_t size_bytes, Block &block)
{
    oracle_.exhausted(call_name, size_bytes, errno, witness());
    block = {};
    return false;
}

bool Interp::allocate_checked(const Request &asked, Block &block)
{
    Request request = asked;
    if ((request.kind == Kind::AlignedAlloc && !support_.aligned_alloc) ||
        (request.kind == Kind::PosixMemalign && !support_.posix_memalign))
        request = {Kind::Malloc, asked.size_bytes, 0};

    errno = 0;
    void *start = call(request);
    if (start == nullptr) return exhausted(kind_name(request.kind), request.size_bytes, block);
    block = {start, request.size_bytes, generation(), request.align_bytes};
    if (!oracle_.allocated(block, usable_bytes(start), request.kind == Kind::Calloc, witness())) {
        block = {};  // not freed: it may be part of another block
        return false;
    }
    count_allocated(block.size_bytes);
    return true;
}

bool Interp::release_checked(Block &block)
{
    const Block old = block;
    block = {};
    if (!oracle_.before_free(old, witness())) return false;
    errno = kErrnoMark;
    subject::call_free(old.start);
    const int after = errno;
    count_freed(old.size_bytes);
    return oracle_.errno_kept(kErrnoMark, after, witness());
}

bool Interp::reallocate(Block &block, std::size_t size_bytes)
{
    const Block old = block;
    if (!oracle_.before_realloc(old, witness())) return false;
    errno = 0;
    void *start = subject::call_realloc(old.start, size_bytes);
    if (start == nullptr) return exhausted("realloc", size_bytes, block);
    block = {start, size_bytes, generation(), 0};
    if (!oracle_.after_realloc(old, block, usable_bytes(start), witness())) {
        block = {};
        return false;
    }
    bump(counters_.ops, 1);
    bump(counters_.bytes_allocated, size_bytes);
    bump(counters_.bytes_freed, old.size_bytes);
    return true;
}

bool Interp::probe_impossible()
{
    errno = 0;
    void *start = subject::call_malloc(SIZE_MAX - 4096);
    if (!oracle_.impossible_refused("malloc(SIZE_MAX - 4096)", start == nullptr, errno, witness())) return false;
    errno = 0;
    start = subject::call_calloc(SIZE_MAX / 2, 4);
    if (!oracle_.impossible_refused("calloc(SIZE_MAX / 2, 4)", start == nullptr, errno, witness())) return false;

    Block block{};
    if (!allocate_checked({Kind::Malloc, 100, 0}, block)) return false;
    errno = 0;
    start = subject::call_realloc(block.start, SIZE_MAX / 2 + 2);
    if (!oracle_.impossible_refused("realloc(block, PTRDIFF_MAX + 2)", start == nullptr, errno, witness()))
        return false;
    return release_checked(block);
}

}  // namespace stress
