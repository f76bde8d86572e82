// Arithmetic on sizes: around powers of two, around the size of the address space, and counts that exceed 16 and 32
// bits.
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "conform/check.h"
#include "conform/limits.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

// A returned block must have the requested size. Writes its last byte, so that a size that was cut faults.
const char *large_block_fault(const Subject &s, std::size_t size)
{
    unsigned char *block = bytes_of(launder(s.malloc(size)));
    if (block == nullptr) return nullptr;
    if (reinterpret_cast<std::uintptr_t>(block) + size < size)
        return wrong_text("gave %p, which ends beyond the end of the address space", static_cast<void *>(block));
    if (s.usable_size != nullptr && s.usable_size(block) < size)
        return wrong_text("gave %p with a malloc_usable_size of %#zx", static_cast<void *>(block),
                          s.usable_size(block));
    block[0] = 1;
    block[size - 1] = 1;
    block[size / 2] = 1;
    s.free(block);
    return nullptr;
}

Verdict around_powers_of_two(const Subject &s)
{
    for (int shift = 10; shift < 64; ++shift)
        for (std::size_t off : {0ul, 1ul, 16ul, 4096ul, 65'536ul}) {
            const std::size_t power = std::size_t{1} << shift;
            for (std::size_t size : {power - off, power + off, power + power / 2 - off})
                if (const char *fault = large_block_fault(s, size == 0 ? 1 : size))
                    return fail("malloc(%#zx) %s", size, fault);
        }
    return pass();
}

// Only one size: some mallocs crash at others, and a check of many sizes would not get as far as errno.
Verdict ptrdiff_max_fails(const Subject &s)
{
    constexpr std::size_t size = PTRDIFF_MAX;
    void *kept = launder(s.malloc(100)), *block = nullptr;
    for (const char *call : {"malloc", "calloc", "realloc"}) {
        errno = 0;
        if (call[0] == 'm') block = s.malloc(size);
        else if (call[0] == 'c') block = s.calloc(1, size);
        else block = s.realloc(kept, size);
        const int error = errno;
        if (launder(block) != nullptr) return fail("%s of PTRDIFF_MAX bytes gave a block: %p", call, block);
        if (error != ENOMEM) return fail("%s of PTRDIFF_MAX bytes gave NULL and errno %s", call, errno_text(error));
    }
    s.free(kept);
    return pass();
}

Verdict above_32_bits(const Subject &s)
{
    constexpr std::size_t four_gib = std::size_t{1} << 32;
    for (std::size_t times : {1ul, 2ul, 3ul, 16ul})
        for (std::size_t more : {1ul, 16ul, 1000ul, 70'000ul})
            if (const char *fault = large_block_fault(s, times * four_gib + more))
                return fail("malloc(%zu) %s", times * four_gib + more, fault);
    // Page counts that exceed 16 and 32 bits, for pages of 4 and of 64 KiB.
    for (std::size_t page : {std::size_t{4096}, std::size_t{65536}})
        for (std::size_t count : {65'535ul, 65'536ul, 65'537ul, four_gib - 1, four_gib, four_gib + 1})
            if (const char *fault = large_block_fault(s, page * count))
                return fail("malloc(%zu pages of %zu) %s", count, page, fault);
    return pass();
}

// Fills the cache, then asks for huge sizes that wrap around to a cached size if something is added.
Verdict near_the_end_with_a_cache(const Subject &s)
{
    for (std::size_t size = 1; size <= 1024; size += 8) {
        void *blocks[10];
        for (void *&block : blocks) block = launder(s.malloc(size));
        for (void *block : blocks) s.free(block);
    }
    for (std::size_t off = 0; off <= 65'536; off += off < 8192 ? 1 : 64) {
        const std::size_t size = SIZE_MAX - off;
        if (void *block = launder(s.malloc(size)); block != nullptr)
            return fail("malloc(SIZE_MAX - %zu) gave a block: %p", off, block);
        if (void *block = launder(s.calloc(1, size)); block != nullptr)
            return fail("calloc(1, SIZE_MAX - %zu) gave a block: %p", off, block);
        if (void *block = launder(s.realloc(nullptr, size)); block != nullptr)
            return fail("realloc(NULL, SIZE_MAX - %zu) gave a block: %p", off, block);
        if (void *block = s.memalign != nullptr ? launder(s.memalign(64, size)) : nullptr; block != nullptr)
            return fail("memalign(64, SIZE_MAX - %zu) gave a block: %p", off, block);
    }
    return pass();
}

// NetBSD's function: takes the address of the pointer and returns an errno value.
Verdict reallocarr_wraps(const Subject &s)
{
    if (s.reallocarr == nullptr) return not_provided("reallocarr");
    constexpr std::size_t four_gib = std::size_t{1} << 32;
    for (const auto &[count, size] : {std::pair{SIZE_MAX / 2 + 1, 2ul}, {four_gib, four_gib}, {SIZE_MAX, 2ul}}) {
        void *block = launder(s.malloc(1000));
        if (block == nullptr) return fail("malloc(1000) gave NULL, errno %s", errno_text(errno));
        fill(block, 1000, 4);
        void *const before = block;
        if (s.reallocarr(&block, count, size) == 0)
            return fail("reallocarr(&block, %#zx, %#zx), whose product wraps, returned 0", count, size);
        if (launder(block) != before || !filled(block, 1000, 4))
            return fail("reallocarr(&block, %#zx, %#zx) failed and changed the block %p; the pointer is %p", count,
                        size, before, block);
        s.free(block);
    }
    return pass();
}

Verdict more_than_16_bits(const Subject &s)
{
    constexpr std::size_t count = 300'000;
    static unsigned *blocks[count];
    for (std::size_t size : {16ul, 48ul}) {
        for (std::size_t i = 0; i < count; ++i) {
            if ((blocks[i] = static_cast<unsigned *>(launder(s.malloc(size)))) == nullptr)
                return fail("malloc(%zu) gave NULL, errno %s, after %zu blocks", size, errno_text(errno), i);
            blocks[i][0] = static_cast<unsigned>(i);
            blocks[i][size / 4 - 1] = ~static_cast<unsigned>(i);
        }
        for (std::size_t i = 0; i < count; ++i)
            if (blocks[i][0] != static_cast<unsigned>(i) || blocks[i][size / 4 - 1] != ~static_cast<unsigned>(i))
                return fail("block %zu of %zu bytes, %p, shares its memory with another", i, size,
                            static_cast<void *>(blocks[i]));
        for (std::size_t i = 0; i < count; ++i) s.free(blocks[(i * 7919) % count]);
    }
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

Verdict end_of_the_address_space(const Subject &s)
{
    for (std::size_t size : all_sizes()) {
        void *block = launder(s.malloc(size));
        const std::size_t usable = s.usable_size != nullptr ? s.usable_size(block) : size;
        const auto start = reinterpret_cast<std::uintptr_t>(block);
        if (start + usable < start || start + usable > std::uintptr_t{1} << 56)
            return fail("malloc(%zu) gave %p with %zu usable bytes, which is no user memory", size, block, usable);
        if (usable < size || usable > 8 * size + (64 << 10))
            return fail("malloc_usable_size(%p) of malloc(%zu) is %zu, not within %zu and %zu", block, size, usable,
                        size, 8 * size + (64 << 10));
        memset(block, 1, usable);  // all of it
        s.free(block);
    }
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

// Parameters of mallopt, with glibc's numbers, since another libc's header may lack them.
constexpr int kMxfast = 1, kTrimThreshold = -1, kTopPad = -2, kMmapThreshold = -3, kMmapMax = -4, kArenaTest = -7,
              kArenaMax = -8;

Verdict settings(const Subject &s)
{
    if (s.mallopt == nullptr) return not_provided("mallopt");
    for (int value : {0, 1, 7, 8, 15, 16, 17, 80, 160}) {
        s.mallopt(kMxfast, value);
        for (std::size_t size = 1; size < 300; ++size) {
            void *one = launder(s.malloc(size)), *other = launder(s.malloc(size));
            if (one == nullptr || one == other)
                return fail("after mallopt(M_MXFAST, %d), malloc(%zu) twice gave %p and %p", value, size, one, other);
            s.free(one);
            s.free(other);
        }
    }
    for (int parameter : {kTrimThreshold, kTopPad, kMmapThreshold, kMmapMax, kArenaTest, kArenaMax})
        for (int value : {0, 1, 1 << 20}) {
            s.mallopt(parameter, value);
            const char *wrong = exercise(s);
            if (wrong == nullptr && !in_thread([&] { wrong = exercise(s); })) return fail("no thread");
            if (wrong != nullptr) return fail("after mallopt(%d, %d), %s", parameter, value, wrong);
        }
    return pass();
}

constexpr Check kNumberChecks[] = {
    {"around-powers-of-two",
     "sizes around all powers of two are there in full, or fail",
     "C23 7.24.3: a block has at least the size that was asked for, or there is none",
     "jemalloc 4.4.0, jemalloc a0f2bdf9",
     {38},
     around_powers_of_two},
    {"enomem-ptrdiff-max",
     "malloc, calloc and realloc of PTRDIFF_MAX bytes are NULL with ENOMEM, whatever other sizes do",
     "POSIX.1-2024 malloc, calloc, realloc: on failure NULL and errno ENOMEM",
     "snmalloc#461, mimalloc#1135, jemalloc#2620",
     {1, 12},
     ptrdiff_max_fails},
    {"above-32-bits",
     "sizes and page counts beyond 16 and 32 bits are not cut",
     "C23 7.24.3: a block has at least the size that was asked for, or there is none",
     "mimalloc PR#877, gperftools#470",
     {9, 38},
     above_32_bits},
    {"near-size-max-with-a-cache",
     "sizes near SIZE_MAX fail when small blocks are cached",
     "C23 7.24.3: a block has at least the size that was asked for, or there is none",
     "BZ#22375, CVE-2017-17426",
     {38},
     near_the_end_with_a_cache},
    {"reallocarr-wraps",
     "reallocarr fails if the product wraps, and leaves the block",
     "NetBSD reallocarr(3): an error number if the product overflows; the pointer and the block stay",
     "snmalloc#863",
     {6, 38},
     reallocarr_wraps},
    {"more-than-16-bits",
     "300,000 blocks of one size are all distinct",
     "C23 7.24.3: blocks are disjoint",
     "hardened_malloc fbc85d5",
     {38},
     more_than_16_bits},
    {"usable-to-the-end",
     "a block lies in user memory and is usable to the end of its usable size",
     "malloc_usable_size(3): the bytes up to the usable size can be written",
     "gperftools 4e24f4a",
     {38},
     end_of_the_address_space},
    {"settings",
     "no setting of mallopt, not even 0, stops malloc",
     "mallopt(3): sets a parameter and returns 1, or returns 0",
     "BZ#25733",
     {38},
     settings},
};

}  // namespace

std::span<const Check> number_checks()
{
    return kNumberChecks;
}

}  // namespace stress::conform
