// Free and its variants: errno is kept, sized frees accept the right sizes, good sizes do not wrap.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>

#include "conform/check.h"
#include "conform/deny.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

// Frees blocks of all sizes, with every errno; null, or where errno changed.
const char *errno_lost(const Subject &s)
{
    for (std::size_t size : all_sizes())
        for (int error : {0, EINTR, ENOENT, 4711}) {
            void *blocks[3];
            for (void *&block : blocks) {
                block = launder(s.malloc(size));
                if (block != nullptr) mark(block, size, 1);
            }
            for (void *block : blocks) {
                errno = error;
                s.free(block);
                if (const int after = errno; after != error)
                    return wrong_text("free(%p) of %zu bytes changed errno from %s to %s", block, size,
                                      errno_text(error), errno_text(after));
            }
        }
    return nullptr;
}

Verdict free_keeps_errno(const Subject &s)
{
    const char *wrong = errno_lost(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

Verdict free_keeps_errno_denied(const Subject &s)
{
    const char *wrong = nullptr;
    bool denied = false;
    auto body = [&] {
        const long numbers[] = {SYS_madvise, SYS_munmap};
        denied = deny_calls(numbers, ENOMEM);
        if (denied) wrong = errno_lost(s);
        if (denied && s.trim != nullptr) {
            s.trim(0);
            if (wrong == nullptr) wrong = errno_lost(s);
        }
    };
    // Not joined: a thread's end unmaps its stack, which this thread is not allowed to do. It ends with the process.
    std::atomic<int> done{0};
    auto outer = [&] {
        body();
        done = 1;
        for (;;) sleep_ms(1000);
    };
    pthread_t thread;
    if (pthread_create(
            &thread, nullptr,
            [](void *f) -> void * {
                (*static_cast<decltype(outer) *>(f))();
                return nullptr;
            },
            &outer) != 0)
        return fail("no thread");
    now_doing("free in a thread where munmap and madvise fail");
    wait_until(done, 1);
    if (!denied) return skip("the kernel lets no seccomp filter be set");
    return wrong == nullptr ? pass() : fail("%s where munmap and madvise fail with ENOMEM", wrong);
}

Verdict free_of_locked_pages(const Subject &s)
{
    for (std::size_t size : {5000ul, 40'000ul, 1ul << 20, 5ul << 20}) {
        void *block = launder(s.malloc(size));
        if (block == nullptr) return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
        fill(block, size, 1);
        if (mlock(block, size) != 0) return skip("mlock is refused here");
        errno = 4711;
        s.free(block);
        if (errno != 4711)
            return fail("free of %zu locked bytes changed errno from 4711 to %s", size, errno_text(errno));
        // A malloc that gives memory back after a delay does so in a later call.
        sleep_ms(60);
        void *next = launder(s.malloc(size));
        sleep_ms(60);
        errno = 4711;
        s.free(next);
        if (errno != 4711)
            return fail("free of %zu bytes, 120 ms after a free of locked ones, changed errno from 4711 to %s", size,
                        errno_text(errno));
        if (s.trim != nullptr) s.trim(0);
        block = launder(s.calloc(1, size));
        if (block == nullptr || !all_zero(block, size))
            return fail("calloc(1, %zu) after a free of locked pages gave %p, %s", size, block,
                        block == nullptr ? "NULL" : "which is not zero");
        s.free(block);
    }
    return pass();
}

Verdict free_sized_matches(const Subject &s)
{
    if (s.free_sized == nullptr) return not_provided("free_sized");
    for (std::size_t size : all_sizes())
        for (int i = 0; i < 3; ++i) {
            void *blocks[] = {launder(s.malloc(size)), launder(s.calloc(1, size)), launder(s.realloc(nullptr, size))};
            for (void *block : blocks) s.free_sized(block, size);
        }
    if (const char *wrong = exercise(s)) return fail("after free_sized of blocks of all sizes, %s", wrong);
    s.free_sized(nullptr, 0);
    if (const char *wrong = exercise(s)) return fail("after free_sized(NULL, 0), %s", wrong);
    void *empty = launder(s.malloc(0));
    s.free_sized(empty, 0);
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("after free_sized(%p of malloc(0), 0), %s", empty, wrong);
}

Verdict free_aligned_sized_matches(const Subject &s)
{
    if (s.free_aligned_sized == nullptr) return not_provided("free_aligned_sized");
    if (s.aligned_alloc == nullptr) return not_provided("aligned_alloc");
    for (std::size_t align = 8; align <= 4 << 20; align *= 4)
        for (std::size_t count = 1; count <= 9; count += 2)
            s.free_aligned_sized(launder(s.aligned_alloc(align, align * count)), align, align * count);
    if (const char *wrong = exercise(s)) return fail("after free_aligned_sized at alignments of 8 to 4 MiB, %s", wrong);
    s.free_aligned_sized(nullptr, 64, 0);
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("after free_aligned_sized(NULL, 64, 0), %s", wrong);
}

Verdict sdallocx_of_aligned(const Subject &s)
{
    if (s.sdallocx == nullptr) return not_provided("sdallocx");
    if (s.memalign == nullptr) return not_provided("memalign");
    for (int align_log2 = 4; align_log2 <= 21; ++align_log2)
        for (std::size_t size : {1ul, 100ul, 5000ul, 300'000ul})
            s.sdallocx(launder(s.memalign(std::size_t{1} << align_log2, size)), size, align_log2);
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass()
                            : fail("after sdallocx of blocks of memalign at alignments of 16 to 2 MiB, %s", wrong);
}

Verdict good_size_overflow(const Subject &s)
{
    if (s.good_size == nullptr && s.nallocx == nullptr) return not_provided("malloc_good_size and nallocx");
    for (std::size_t size : all_sizes()) {
        if (s.good_size != nullptr && s.good_size(size) < size)
            return fail("malloc_good_size(%zu) is %zu", size, s.good_size(size));
        if (s.nallocx != nullptr && s.nallocx(size, 0) < size)
            return fail("nallocx(%zu, 0) is %zu", size, s.nallocx(size, 0));
    }
    for (std::size_t off : {0ul, 1ul, 7ul, 15ul, 4095ul, 65535ul, 1ul << 21}) {
        const std::size_t size = SIZE_MAX - off;
        if (s.good_size != nullptr && s.good_size(size) < size)
            return fail("malloc_good_size(%#zx) wraps to %#zx", size, s.good_size(size));
        if (s.nallocx != nullptr && s.nallocx(size, 0) != 0 && s.nallocx(size, 0) < size) // 0: there is no such size
            return fail("nallocx(%#zx, 0) wraps to %#zx", size, s.nallocx(size, 0));
    }
    return pass();
}

constexpr Check kSizedChecks[] = {
    {"free-keeps-errno",
     "free keeps errno",
     "POSIX.1-2024 free: free does not modify errno",
     "BZ#17924, jemalloc 3a779661, snmalloc#754",
     {11},
     free_keeps_errno},
    {"free-keeps-errno-when-denied",
     "free keeps errno, also when munmap and madvise fail",
     "POSIX.1-2024 free: free does not modify errno",
     "BZ#17924, hardened_malloc d3152b8",
     {11},
     free_keeps_errno_denied},
    {"free-of-locked-pages",
     "free of locked pages keeps errno, and the pages are zero for calloc",
     "POSIX.1-2024 free: free does not modify errno; C23 7.24.3.2: all bits of a calloc block are zero",
     "BZ#17924, jemalloc 3a779661",
     {11, 17},
     free_of_locked_pages},
    {"free-sized",
     "free_sized takes blocks of malloc, calloc and realloc",
     "C23 7.24.3.4: free_sized of NULL, or of a block and its size, is free",
     "C23, mimalloc#754, jemalloc cdb2c0e0",
     {10},
     free_sized_matches},
    {"free-aligned-sized",
     "free_aligned_sized takes blocks of aligned_alloc",
     "C23 7.24.3.5: free_aligned_sized of NULL, or of a block with its alignment and size, is free",
     "C23, snmalloc#832",
     {10},
     free_aligned_sized_matches},
    {"sdallocx-of-aligned",
     "sdallocx takes blocks of memalign",
     "jemalloc(3): sdallocx takes the size and flags of the call that allocated the block",
     "gperftools#1096",
     {10},
     sdallocx_of_aligned},
    {"good-size-overflow",
     "a good size is not below what was asked for, near SIZE_MAX too",
     "malloc_good_size: not below the size that was asked for (mimalloc's and macOS's manual)",
     "mimalloc 6b24908c",
     {16},
     good_size_overflow},
};

} // namespace

std::span<const Check> sized_checks()
{
    return kSizedChecks;
}

} // namespace stress::conform
