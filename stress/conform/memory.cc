// Memory runs out: every call fails with ENOMEM, existing blocks stay intact, and everything works again once there is
// memory.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "conform/check.h"
#include "conform/files.h"
#include "conform/limits.h"
#include "conform/support.h"
#include "conform/process.h"

namespace stress::conform {
namespace {

// A list of blocks, linked through their first words, because the harness has no memory for their addresses.
struct Chain {
    struct Link {
        Link *next;
        std::size_t size;
    };
    Link *first = nullptr;
    std::size_t count = 0;

    void add(void *block, std::size_t size)
    {
        auto *link = static_cast<Link *>(block);
        memset(block, 0x5a, size);
        *link = {first, size};
        first = link;
        ++count;
    }
    // Whether all blocks still hold their content. Frees them.
    bool free_all(const Subject &s)
    {
        bool whole = true;
        while (first != nullptr) {
            Link *link = first;
            const std::size_t size = link->size;
            if (size > sizeof *link && bytes_of(link)[size - 1] != 0x5a) whole = false;
            first = link->next;
            s.free(link);
        }
        return whole;
    }
};

// Allocates until malloc fails. Null, or what was wrong with the failure.
const char *take_everything(const Subject &s, std::size_t size, Chain &chain, std::size_t blocks_max)
{
    while (chain.count < blocks_max) {
        errno = 0;
        void *block = launder(s.malloc(size));
        if (block == nullptr)
            return errno == ENOMEM ? nullptr
                                   : wrong_text("malloc gave NULL and errno %s, not ENOMEM, after %zu blocks",
                                                errno_text(errno), chain.count);
        chain.add(block, size);
    }
    return wrong_text("%zu blocks fit in the limit, which is more than it has room for", chain.count);
}

// Every entry must fail, or give memory that can be used.
const char *try_every_entry(const Subject &s, std::size_t size)
{
    void *block = launder(s.calloc(1, size));
    if (block != nullptr && !all_zero(block, size))
        return wrong_text("calloc(1, %zu) gave %p, which is not zero", size, block);
    s.free(block);
    if (s.memalign != nullptr) {
        block = launder(s.memalign(4096, size));
        if (block != nullptr) fill(block, size, 1);
        s.free(block);
    }
    void *out = nullptr;
    if (s.posix_memalign != nullptr && s.posix_memalign(&out, 256, size) == 0) fill(out, size, 1);
    s.free(out);
    return nullptr;
}

constexpr std::size_t kLimitBytes = 32 * kMib;  // added to what the process had at the start

Verdict runs_out(const Subject &s, int resource, std::size_t used_bytes, std::size_t size)
{
    void *held = launder(s.malloc(5000));
    fill(held, 5000, 7);
    const char *wrong = nullptr;
    for (int round = 0; round < 2 && wrong == nullptr; ++round) {
        Chain chain;
        {
            const Limit limit(resource, used_bytes, kLimitBytes);
            if (!limit.set()) return skip("the limit on memory cannot be set");
            const std::size_t held_bytes = resource == RLIMIT_AS ? address_space_bytes() : data_bytes();
            wrong = take_everything(s, size, chain, (held_bytes + 2 * kLimitBytes) / size);
            if (wrong == nullptr) wrong = try_every_entry(s, size);
            const bool had_any = chain.count > 0;
            if (wrong == nullptr && !had_any && size <= 64 << 10)
                wrong = wrong_text("malloc gives none of the %zu MiB that %s leaves", kLimitBytes / kMib,
                                   resource == RLIMIT_AS ? "RLIMIT_AS" : "RLIMIT_DATA");
            errno = 0;
            void *larger = wrong == nullptr ? launder(s.realloc(held, 64 * kMib)) : nullptr;
            if (larger != nullptr) held = larger;
            if (const std::size_t at = filled_until(held, 5000, 7); at != SIZE_MAX)
                wrong = wrong_text("realloc(%p of 5000 bytes, 64 MiB) gave %p and lost byte %zu", held, larger, at);
            const std::size_t had = chain.count;
            if (!chain.free_all(s) && wrong == nullptr) wrong = "the last byte of a block changed while it was live";
            errno = 0;
            void *again = launder(s.malloc(size));  // the freed block can be allocated again
            if (again == nullptr && had_any && wrong == nullptr)
                wrong = wrong_text("malloc gives NULL, errno %s, still after all %zu blocks were freed",
                                   errno_text(errno), had);
            s.free(again);
        }
        if (wrong == nullptr) wrong = exercise(s);
    }
    return wrong == nullptr ? pass()
                            : fail("blocks of %zu bytes under %s: %s", size,
                                   resource == RLIMIT_AS ? "RLIMIT_AS" : "RLIMIT_DATA", wrong);
}

Verdict runs_out_of_each(const Subject &s, int resource, std::span<const std::size_t> sizes)
{
    const std::size_t used_bytes = resource == RLIMIT_AS ? address_space_bytes() : data_bytes();
    for (std::size_t size : sizes)
        if (const Verdict verdict = runs_out(s, resource, used_bytes, size); verdict.status != Status::Pass)
            return verdict;
    return pass();
}

constexpr std::size_t kSmall[] = {16, 100, 1000}, kLarge[] = {5000, 40'000, 300'000, 3 << 20, 20 << 20};

Verdict small_out_of_data(const Subject &s)
{
    return runs_out_of_each(s, RLIMIT_DATA, kSmall);
}
Verdict large_out_of_data(const Subject &s)
{
    return runs_out_of_each(s, RLIMIT_DATA, kLarge);
}
Verdict small_out_of_space(const Subject &s)
{
    return runs_out_of_each(s, RLIMIT_AS, kSmall);
}
Verdict large_out_of_space(const Subject &s)
{
    return runs_out_of_each(s, RLIMIT_AS, kLarge);
}

// Fails in every way, then tries everything in another thread, which a lock that was not released would stop.
Verdict locks_after_failures(const Subject &s)
{
    static Chain chain;
    {
        const Limit limit(RLIMIT_DATA, data_bytes(), 16 * kMib);
        if (!limit.set()) return skip("the limit on memory cannot be set");
        for (std::size_t size : {16ul, 1000ul, 40'000ul, 300'000ul, 3ul << 20}) {
            take_everything(s, size, chain, 1'000'000);
            try_every_entry(s, size);
        }
        for (std::size_t size : kImpossible) {
            s.free(launder(s.malloc(size)));
            s.free(launder(s.calloc(2, size)));
            if (s.memalign != nullptr) s.free(launder(s.memalign(4096, size)));
        }
    }
    const char *wrong = nullptr;
    auto body = [&] { wrong = exercise(s); };
    now_doing("malloc in another thread, after calls that failed");
    if (!in_thread(body)) return fail("no thread");
    if (wrong != nullptr) return fail("after calls that failed, %s", wrong);
    if (!chain.free_all(s)) return fail("after calls that failed, the last byte of a live block had changed");
    wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("after calls that failed, %s", wrong);
}

Verdict nothing_at_0(const Subject &s)
{
    Chain chain;
    {
        const Limit limit(RLIMIT_AS, address_space_bytes(), 32 * kMib);
        if (!limit.set()) return skip("the limit on memory cannot be set");
        take_everything(s, 300'000, chain, 10'000);
        for (std::size_t size : kImpossible) s.free(launder(s.malloc(size)));
        chain.free_all(s);
    }
    const char *wrong = exercise(s);
    if (wrong != nullptr) return fail("%s", wrong);
    return mapped_below(65536) ? fail("something is mapped below 64 KiB, where NULL points") : pass();
}

Verdict limit_set_later(const Subject &s)
{
    return in_fresh_program("limit-set-later", s);
}

// Set before the program starts, so that a malloc finds no room for a large reservation of its first call either.
Verdict threads_under_a_limit(const Subject &s)
{
    const rlimit limit{700 * kMib, 700 * kMib};
    const pid_t child = fork_of_check();
    if (child < 0) return fail("fork failed");
    if (child == 0) {
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(0);
        become_fresh_program("starts", s);
        _exit(0);
    }
    if (judge_fork(child) != nullptr) return skip("the malloc does not start in 700 MiB");
    if (setrlimit(RLIMIT_AS, &limit) != 0) return skip("the limit on memory cannot be set");
    return in_fresh_program("threads-under-a-limit", s);
}

constexpr Check kMemoryChecks[] = {
    {"small-out-of-data",
     "small blocks until no page can be committed, and all again (RLIMIT_DATA)",
     "POSIX.1-2024 malloc: on failure NULL and errno ENOMEM",
     "gperftools#228, mimalloc#1098, mimalloc PR#303, mimalloc#469",
     {30},
     small_out_of_data},
    {"large-out-of-data",
     "large blocks until no page can be committed, and all again (RLIMIT_DATA)",
     "POSIX.1-2024 malloc: on failure NULL and errno ENOMEM",
     "rpmalloc#368, mimalloc#1098, mimalloc PR#303",
     {30},
     large_out_of_data},
    {"small-out-of-address-space",
     "small blocks until the address space ends, and all again (RLIMIT_AS)",
     "POSIX.1-2024 malloc: on failure NULL and errno ENOMEM",
     "gperftools#228, rpmalloc#368",
     {30},
     small_out_of_space},
    {"large-out-of-address-space",
     "large blocks until the address space ends, and all again (RLIMIT_AS)",
     "POSIX.1-2024 malloc: on failure NULL and errno ENOMEM",
     "rpmalloc#368, mimalloc#1098",
     {30},
     large_out_of_space},
    {"limit-set-later",
     "a process that limits itself to 1 GiB gets all of it but 88 MiB (RLIMIT_AS, RLIMIT_DATA); mlockall needs no 96 MiB",
     "quality: getrlimit(2) counts reserved address space, so what a malloc reserves is missing to the program",
     "an early libhakmem",
     {30},
     limit_set_later},
    {"threads-under-a-limit",
     "600 threads, of which each leaves 100 bytes, come and go in 700 MiB of address space (RLIMIT_AS)",
     "quality: address space stays in proportion to what is live, not to the threads that have ended",
     "mimalloc 96b69d7e",
     {19, 30},
     threads_under_a_limit},
    {"locks-after-failures",
     "no lock is held after a call that failed",
     "POSIX.1-2024 malloc: a call that failed leaves the others as they were",
     "jemalloc 675ab079",
     {31},
     locks_after_failures},
    {"nothing-at-0",
     "nothing is ever mapped where NULL points",
     "C23 7.24.3: a block is not a null pointer",
     "tcmalloc 73c129c0",
     {31},
     nothing_at_0},
};

}  // namespace

std::span<const Check> memory_checks()
{
    return kMemoryChecks;
}

}  // namespace stress::conform
