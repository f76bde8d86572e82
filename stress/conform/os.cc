// System calls that fail: munmap, the limit on mappings, a thread that gets no memory, getrandom.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "conform/check.h"
#include "conform/deny.h"
#include "conform/files.h"
#include "conform/support.h"
#include "conform/process.h"

namespace stress::conform {
namespace {

// Runs `body` in a thread that then sleeps until the process ends; under a filter, the thread could not end cleanly.
template <typename Body> bool in_last_thread(Body &body)
{
    static std::atomic<int> done;
    static Body *worker;
    done = 0;
    worker = &body;
    const auto enter = [](void *) -> void * {
        (*worker)();
        done = 1;
        for (;;) sleep_ms(1000);
    };
    pthread_t thread;
    if (pthread_create(&thread, nullptr, enter, nullptr) != 0) return false;
    wait_until(done, 1);
    return true;
}

Verdict munmap_fails(const Subject &s)
{
    bool denied = false;
    const char *wrong = nullptr;
    auto body = [&] {
        const long numbers[] = {SYS_munmap};
        if (!(denied = deny_calls(numbers, ENOMEM))) return;
        for (int round = 0; round < 4 && wrong == nullptr; ++round) {
            for (std::size_t size : {70'000ul, 1ul << 20, 9ul << 20, 40ul << 20}) {
                void *block = launder(s.malloc(size));
                if (block == nullptr) {
                    wrong = wrong_text("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
                    return;
                }
                memset(block, 0xff, size);
                block = launder(s.realloc(block, size / 4));
                errno = 4711;
                s.free(block);
                if (errno != 4711)
                    wrong = wrong_text("free of %zu bytes changed errno from 4711 to %s", size / 4, errno_text(errno));
                block = launder(s.calloc(1, size));
                if (block == nullptr || !all_zero(block, size))
                    wrong = wrong_text("calloc(1, %zu) gave %p, %s", size, block,
                                       block == nullptr ? "NULL" : "which is not zero");
                s.free(block);
            }
            if (wrong == nullptr) wrong = exercise(s);
        }
    };
    now_doing("malloc in a thread where munmap fails");
    if (!in_last_thread(body)) return fail("no thread");
    if (!denied) return skip("the kernel lets no seccomp filter be set");
    if (wrong == nullptr) wrong = exercise(s);  // now from a thread that may use munmap
    return wrong == nullptr ? pass() : fail("where munmap fails, %s", wrong);
}

// Makes as many mappings as the kernel allows: pages of alternating protection.
Verdict mapping_limit(const Subject &s)
{
    constexpr std::size_t page = 4096, pages = 200'000;
    static void *blocks[60];
    for (std::size_t i = 0; i < 60; ++i)
        if ((blocks[i] = launder(s.malloc(all_sizes()[i % 20]))) != nullptr) mark(blocks[i], all_sizes()[i % 20], 3);
    auto *region = static_cast<unsigned char *>(
        mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (region == MAP_FAILED) return skip("no address space");
    bool full = false;
    for (std::size_t i = 1; i < pages && !full; i += 2) full = mprotect(region + i * page, page, PROT_READ) != 0;
    if (!full) return skip("vm.max_map_count is above %zu", pages);
    for (std::size_t i = 0; i < 60; ++i) {
        if (blocks[i] == nullptr || !marked(blocks[i], all_sizes()[i % 20], 3))
            return fail("the block %p of %zu bytes changed at the limit of mappings (vm.max_map_count)", blocks[i],
                        all_sizes()[i % 20]);
        errno = 4711;
        s.free(blocks[i]);
        if (errno != 4711)
            return fail("free of %zu bytes changed errno from 4711 to %s at the limit of mappings (vm.max_map_count)",
                        all_sizes()[i % 20], errno_text(errno));
    }
    for (std::size_t size : all_sizes()) {
        void *block = launder(s.malloc(size));  // NULL, or memory
        if (block == nullptr) continue;
        fill(block, size, 1);
        s.free(block);
    }
    munmap(region, pages * page);
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("after the limit of mappings was reached, %s", wrong);
}

Verdict mapping_count(const Subject &s)
{
    static void *blocks[3000];
    const long before = conform::mapping_count();
    for (int round = 0; round < 3; ++round) {
        for (std::size_t i = 0; i < 3000; ++i)
            blocks[i] = launder(s.malloc(i % 3 == 0 ? 70'000 : i % 3 == 1 ? 300'000 : 4000));
        for (std::size_t i = 0; i < 3000; i += 2) s.free(blocks[i]); // every second one, which leaves holes everywhere
        if (s.trim != nullptr) s.trim(0);
        for (std::size_t i = 1; i < 3000; i += 2) s.free(blocks[i]);
        if (s.trim != nullptr) s.trim(0);
    }
    const long after = conform::mapping_count();
    return after < before + 1500
               ? pass()
               : fail("%ld mappings were left of 9000 blocks that are all free, not below 1500", after - before);
}

Verdict thread_without_memory(const Subject &s)
{
    static void *ours[200];
    for (void *&block : ours)
        if ((block = launder(s.malloc(1000))) != nullptr) mark(block, 1000, 1);
    for (int round = 0; round < 3; ++round) {
        bool denied = false;
        const char *wrong = nullptr;
        auto body = [&] {
            if (!(denied = deny_memory())) return;
            if (round == 1) { // its first call is a free
                for (std::size_t i = 0; i < 200; ++i) {
                    if (!marked(ours[i], 1000, 1)) wrong = wrong_text("the block %p of 1000 bytes changed", ours[i]);
                    s.free(ours[i]);
                }
            }
            for (std::size_t size : all_sizes()) {
                errno = 0;
                void *block = launder(s.malloc(size));
                if (block == nullptr && errno != ENOMEM)
                    wrong = wrong_text("malloc(%zu) gave NULL and errno %s, not ENOMEM", size, errno_text(errno));
                if (block != nullptr) fill(block, size, 2);
                s.free(block);
                errno = 0;
                block = launder(s.calloc(1, size));
                if (block == nullptr && errno != ENOMEM)
                    wrong = wrong_text("calloc(1, %zu) gave NULL and errno %s, not ENOMEM", size, errno_text(errno));
                if (block != nullptr && !all_zero(block, size))
                    wrong = wrong_text("calloc(1, %zu) gave %p, which is not zero", size, block);
                s.free(block);
            }
        };
        now_doing("malloc in a thread for which the system has no memory");
        if (!in_last_thread(body)) return fail("no thread");
        if (!denied) return skip("the kernel lets no seccomp filter be set");
        if (wrong == nullptr) wrong = exercise(s);
        if (wrong != nullptr) return fail("where a thread gets no memory from the system, %s", wrong);
    }
    return pass();
}

Verdict getrandom_denied(const Subject &s)
{
    const long numbers[] = {SYS_getrandom};
    if (!deny_calls(numbers, ENOSYS)) return skip("the kernel lets no seccomp filter be set");
    return in_fresh_program("plain", s); // a fresh program, since a filter survives exec
}

// --- pages given back and taken again -----------------------------------------------------------------------------

Verdict purge_of_one_page(const Subject &s)
{
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t size : {page, 2 * page, 16 * page, 16 * page + 1, std::size_t{2} << 20}) {
        constexpr int count = 24;
        void *blocks[count];
        for (int round = 0; round < 2; ++round) {
            for (int i = 0; i < count; ++i) {
                if ((blocks[i] = launder(s.malloc(size))) == nullptr)
                    return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
                fill(blocks[i], size, static_cast<unsigned char>(i));
            }
            for (int i = 0; i < count; i += 2) s.free(blocks[i]);
            if (s.trim != nullptr) s.trim(0);
            sleep_ms(60); // waits for memory that is returned after a delay
            for (int i = 1; i < count; i += 2)
                if (const std::size_t at = filled_until(blocks[i], size, static_cast<unsigned char>(i)); at != SIZE_MAX)
                    return fail("byte %zu of the block %p of %zu bytes changed while its neighbours were given back",
                                at, blocks[i], size);
            for (int i = 0; i < count; i += 2) {
                if ((blocks[i] = launder(s.malloc(size))) == nullptr)
                    return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
                fill(blocks[i], size, static_cast<unsigned char>(i + 100));
            }
            for (int i = 0; i < count; ++i) {
                if (!filled(blocks[i], size, static_cast<unsigned char>(i % 2 == 0 ? i + 100 : i)))
                    return fail("the block %p of %zu bytes changed by writes to others, after memory was given back",
                                blocks[i], size);
                s.free(blocks[i]);
            }
        }
    }
    return pass();
}

Verdict resident_not_inflated(const Subject &s)
{
    const int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    char setting[64] = "";
    if (fd >= 0 && read(fd, setting, sizeof setting - 1) > 0 && strstr(setting, "[always]") != nullptr)
        return skip("transparent huge pages are set to always: the kernel inflates what is touched");
    if (fd >= 0) close(fd);
    constexpr std::size_t count = 400, size = 1 << 20;
    static unsigned char *blocks[count];
    const std::size_t before = resident_bytes();
    for (unsigned char *&block : blocks) {
        if ((block = bytes_of(launder(s.malloc(size)))) == nullptr)
            return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
        block[0] = 1;
    }
    const std::size_t added = resident_bytes() - before;
    for (unsigned char *block : blocks) s.free(block);
    return added < count * size / 4
               ? pass()
               : fail("%zu blocks of 1 MiB, of which one byte each was touched, take %zu MiB, not below %zu", count,
                      added >> 20, count / 4);
}

constexpr Check kOsChecks[] = {
    {"munmap-fails",
     "everything works when munmap fails",
     "POSIX.1-2024 free: free does not modify errno; C23 7.24.3.7: realloc returns NULL or a block",
     "jemalloc#970",
     {29},
     munmap_fails},
    {"mapping-limit",
     "everything works at vm.max_map_count, and afterwards",
     "POSIX.1-2024 malloc: on failure NULL and errno ENOMEM; free does not modify errno",
     "jemalloc#970",
     {29},
     mapping_limit},
    {"mapping-count",
     "the number of mappings does not grow with blocks that are freed",
     "quality: mappings stay in proportion to what is live (vm.max_map_count)",
     "jemalloc#1328",
     {29},
     mapping_count},
    {"thread-without-memory",
     "a new thread that gets no memory from the system: NULL and ENOMEM, and all others go on",
     "POSIX.1-2024 malloc: on failure NULL and errno ENOMEM",
     "jemalloc#2247, jemalloc#2289",
     {30},
     thread_without_memory},
    {"purge-of-one-page",
     "returning single pages leaves their neighbours intact",
     "C23 6.2.4: an object keeps its value until the end of its lifetime",
     "mimalloc 52d5661f",
     {31},
     purge_of_one_page},
    {"resident-not-inflated",
     "memory that is not touched is not resident",
     "quality: no standard forbids huge pages; memory that was never touched is then resident",
     "jemalloc#524, jemalloc#1127, gperftools#1073",
     {31},
     resident_not_inflated},
    {"getrandom-denied",
     "malloc starts if getrandom is denied",
     "POSIX.1-2024 malloc: a block, or NULL and ENOMEM; not an abort where the system denies random numbers",
     "snmalloc (aborts)",
     {32},
     getrandom_denied},
};

} // namespace

std::span<const Check> os_checks()
{
    return kOsChecks;
}

} // namespace stress::conform
