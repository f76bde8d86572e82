// Every byte of a calloc block is zero, whatever the memory held before.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "conform/check.h"
#include "conform/process.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

constexpr int kBlocksMax = 256;

// The number of blocks of this size that lets recycled memory come up; together at most 24 MiB.
int blocks_of(std::size_t size)
{
    const std::size_t count = (std::size_t{24} << 20) / size;
    return count < 2 ? 2 : count > kBlocksMax ? kBlocksMax : static_cast<int>(count);
}

void dirty_and_free(const Subject &s, std::size_t size)
{
    void *blocks[kBlocksMax];
    const int count = blocks_of(size);
    for (int i = 0; i < count; ++i) {
        blocks[i] = launder(s.malloc(size));
        if (blocks[i] != nullptr) memset(blocks[i], 0xff, size);
    }
    for (int i = 0; i < count; ++i) s.free(blocks[i]);
}

// The offset of the first nonzero byte in fresh calloc blocks of count * size bytes; -1 if all are zero.
long dirty_at(const Subject &s, std::size_t count, std::size_t size)
{
    void *blocks[kBlocksMax];
    long found = -1;
    const int many = blocks_of(count * size);
    for (int i = 0; i < many; ++i) {
        blocks[i] = launder(s.calloc(count, size));
        if (blocks[i] == nullptr) continue;
        if (found < 0 && !all_zero(blocks[i], count * size))
            for (found = 0; bytes_of(blocks[i])[found] == 0;) ++found;
        memset(blocks[i], 0xee, count * size);
    }
    for (int i = 0; i < many; ++i) s.free(blocks[i]);
    return found;
}

Verdict calloc_zero(const Subject &s, std::size_t size)
{
    const long at = dirty_at(s, 1, size);
    return at < 0 ? pass() : fail("byte %ld of calloc(1, %zu) is not zero", at, size);
}

Verdict after_dirty_free(const Subject &s)
{
    for (std::size_t size : all_sizes()) {
        dirty_and_free(s, size);
        if (const Verdict verdict = calloc_zero(s, size); verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

Verdict from_the_system(const Subject &s)
{
    for (std::size_t size = 4096; size <= std::size_t{64} << 20; size *= 4) {
        void *block = launder(s.calloc(1, size));
        if (block == nullptr || !all_zero(block, size))
            return fail("calloc(1, %zu) gave %p, %s", size, block,
                        block == nullptr ? "NULL" : "fresh memory that is not zero");
        // Kept, so that the next one is fresh too.
    }
    return pass();
}

// Memory fresh from the system is zero. A calloc that clears it again makes all of it resident.
Verdict untouched(const Subject &s)
{
    constexpr std::size_t size = 128 * kMib;
    const std::size_t before = resident_bytes();
    void *block = launder(s.calloc(1, size));
    if (block == nullptr) return fail("calloc(1, %zu) gave NULL, errno %s", size, errno_text(errno));
    const std::size_t after = resident_bytes();
    s.free(block);
    return after < before + size / 4 ? pass()
                                     : fail("calloc(1, %zu), of which no byte was touched, made %zu MiB resident", size,
                                            (after - before) / kMib);
}

Verdict to_the_last_byte(const Subject &s)
{
    for (std::size_t size = 1; size < 70'000; size = size < 300 ? size + 1 : size + size / 9) {
        dirty_and_free(s, size);
        const std::size_t counts[] = {1, 3, 7};
        for (std::size_t count : counts)
            if (const long at = dirty_at(s, count, size / count + 1); at >= 0)
                return fail("byte %ld of calloc(%zu, %zu) is not zero", at, count, size / count + 1);
    }
    return pass();
}

// If a program may use what malloc_usable_size says, calloc's promise holds there too.
Verdict slack(const Subject &s)
{
    if (s.usable_size == nullptr) return not_provided("malloc_usable_size");
    for (std::size_t size = 1; size < 8 << 20; size = size < 300 ? size + 1 : size + size / 9) {
        void *blocks[8];
        for (void *&block : blocks) {
            block = launder(s.malloc(size));
            if (block != nullptr) memset(block, 0xff, s.usable_size(block));
        }
        for (void *block : blocks) s.free(block);
        for (void *&block : blocks) {
            block = launder(s.calloc(1, size));
            if (block == nullptr) continue;
            const std::size_t usable = s.usable_size(block);
            for (std::size_t at = size; at < usable; ++at)
                if (bytes_of(block)[at] != 0)
                    return fail("byte %zu of calloc(1, %zu) is not zero, and %zu may be used", at, size, usable);
        }
        for (void *block : blocks) s.free(block);
    }
    return pass();
}

Verdict after_trim(const Subject &s)
{
    if (s.trim == nullptr) return not_provided("malloc_trim");
    for (std::size_t size : all_sizes()) {
        dirty_and_free(s, size);
        s.trim(0);
        dirty_and_free(s, size);
        s.trim(0);
        if (const Verdict verdict = calloc_zero(s, size); verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

Verdict with_huge_pages(const Subject &s)
{
    constexpr std::size_t size = 16 << 20, page = 4096;
    for (int round = 0; round < 3; ++round) {
        unsigned char *block = bytes_of(launder(s.malloc(size)));
        if (block == nullptr) return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
        auto *first_page =
            reinterpret_cast<unsigned char *>((reinterpret_cast<std::uintptr_t>(block) + page - 1) & ~(page - 1));
        if (madvise(first_page, size - page, MADV_HUGEPAGE) != 0)
            return skip("the kernel has no transparent huge pages");
        memset(block, 0xff, size);
        s.free(block);
        if (s.trim != nullptr && round == 1) s.trim(0);
        for (std::size_t next : {size, size / 2, std::size_t{2} << 20, std::size_t{300'000}, std::size_t{40'000}})
            if (const Verdict verdict = calloc_zero(s, next); verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

Verdict after_shrink(const Subject &s)
{
    for (std::size_t size : {100ul, 5000ul, 70'000ul, 500'000ul, 5ul << 20}) {
        void *kept[32];
        for (void *&block : kept) {
            block = launder(s.malloc(size));
            if (block == nullptr) return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
            memset(block, 0xff, size);
            block = launder(s.realloc(block, size / 8 + 1));
        }
        if (s.trim != nullptr) s.trim(0);
        for (std::size_t next : {size / 2, size / 4, size - size / 8})
            if (const Verdict verdict = calloc_zero(s, next); verdict.status != Status::Pass) return verdict;
        for (void *block : kept) s.free(block);
        if (const Verdict verdict = calloc_zero(s, size); verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

Verdict after_grow(const Subject &s)
{
    for (std::size_t size : {5000ul, 70'000ul, 1ul << 20, 5ul << 20}) {
        for (int i = 0; i < 8; ++i) {
            void *block = launder(s.calloc(1, size));
            block = launder(s.realloc(block, 3 * size));
            if (block == nullptr)
                return fail("realloc(block of %zu, %zu) gave NULL, errno %s", size, 3 * size, errno_text(errno));
            memset(block, 0xff, 3 * size);
            s.free(block);
        }
        for (std::size_t next : {size, 2 * size, 3 * size})
            if (const Verdict verdict = calloc_zero(s, next); verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

Verdict after_remote_free(const Subject &s)
{
    for (std::size_t size : all_sizes()) {
        void *blocks[kBlocksMax];
        const int count = blocks_of(size);
        for (int i = 0; i < count; ++i) blocks[i] = launder(s.malloc(size));
        if (!in_thread([&] {
                for (int i = 0; i < count; ++i) {
                    if (blocks[i] != nullptr) memset(blocks[i], 0xff, size);
                    s.free(blocks[i]);
                }
            }))
            return fail("no thread");
        if (const Verdict verdict = calloc_zero(s, size); verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

constexpr Check kZeroChecks[] = {
    {"calloc-after-dirty-free",
     "calloc is zero where freed blocks were dirty",
     "C23 7.24.3.2: all bits of the block are zero",
     "mimalloc v2.2.7, jemalloc 5.2.0",
     {17},
     after_dirty_free},
    {"calloc-from-the-system",
     "calloc is zero in memory fresh from the system",
     "C23 7.24.3.2: all bits of the block are zero",
     "mimalloc v2.2.7",
     {17},
     from_the_system},
    {"calloc-untouched",
     "calloc does not clear what the system gives as zeros",
     "quality: calloc of fresh memory should not make it resident",
     "mimalloc v2.2.7",
     {17, 31},
     untouched},
    {"calloc-to-the-last-byte",
     "calloc is zero to the last byte at odd sizes and counts",
     "C23 7.24.3.2: all bits of the block are zero",
     "jemalloc 4.0.3",
     {17},
     to_the_last_byte},
    {"calloc-slack",
     "calloc is zero as far as malloc_usable_size says that the block may be used",
     "quality: no standard has calloc clear what malloc_usable_size adds; jemalloc and glibc do",
     "jemalloc 4.0.3",
     {17},
     slack},
    {"calloc-after-trim",
     "calloc is zero after malloc_trim",
     "C23 7.24.3.2: all bits of the block are zero",
     "jemalloc 5.2.0",
     {17},
     after_trim},
    {"calloc-with-huge-pages",
     "calloc is zero after a free of huge pages",
     "C23 7.24.3.2: all bits of the block are zero",
     "jemalloc 5.2.0",
     {17},
     with_huge_pages},
    {"calloc-after-shrink",
     "calloc is zero in memory that realloc cut off a dirty block",
     "C23 7.24.3.2: all bits of the block are zero",
     "jemalloc 5.2.0",
     {17},
     after_shrink},
    {"calloc-after-grow",
     "calloc is zero where a grown block was",
     "C23 7.24.3.2: all bits of the block are zero",
     "jemalloc 5.2.0",
     {17},
     after_grow},
    {"calloc-after-remote-free",
     "calloc is zero in memory that another thread dirtied and freed",
     "C23 7.24.3.2: all bits of the block are zero",
     "mimalloc v2.2.7",
     {17},
     after_remote_free},
};

}  // namespace

std::span<const Check> zero_checks()
{
    return kZeroChecks;
}

}  // namespace stress::conform
