#include "engine/base/mapped.h"

#include <sched.h>

#include <cstdio>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace stress {
namespace {

std::atomic<std::size_t> resident_bytes{0};

constexpr unsigned kLiftsMax = 1000;

std::size_t round_to_page(std::size_t size_bytes)
{
    constexpr std::size_t page_bytes = 4096;
    return size_bytes == 0 ? page_bytes : (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
}

// Below what the kernel gives by itself, and above where programs lie.
std::atomic<std::uintptr_t> next_place{std::uintptr_t{64} << 30};

}  // namespace

void *harness_place(std::size_t size_bytes)
{
    if (kSanitized) return nullptr; // each new place may make a mapping of shadow more
    return reinterpret_cast<void *>(next_place.fetch_add(round_to_page(size_bytes), std::memory_order_relaxed));
}

void *harness_mmap(std::size_t size_bytes, int more_flags)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | more_flags;
    void *const place = harness_place(size_bytes);
    // Another thread may lift the limit at the same time. This one then finds it already lifted, or sees it set again
    // before its mmap; so it tries again.
    for (unsigned tries = 0;; ++tries) {
        void *start = mmap(place, size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        rlimit limit{};
        if (start != MAP_FAILED || tries == kLiftsMax || getrlimit(RLIMIT_AS, &limit) != 0) return start;
        const rlimit lifted{limit.rlim_max, limit.rlim_max};
        if (limit.rlim_cur == limit.rlim_max) {
            sched_yield();
        } else if (setrlimit(RLIMIT_AS, &lifted) == 0) {
            start = mmap(place, size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
            setrlimit(RLIMIT_AS, &limit);
            if (start != MAP_FAILED) return start;
        }
    }
}

void *harness_map(std::size_t size_bytes)
{
    const std::size_t mapped_bytes = round_to_page(size_bytes);
    void *start = harness_mmap(mapped_bytes, MAP_POPULATE);
    if (start == MAP_FAILED) {
        std::fprintf(stderr, "hakmem-stress: no memory for the harness itself (%zu bytes); ask for fewer blocks\n",
                     mapped_bytes);
        _exit(2);
    }
    resident_bytes.fetch_add(mapped_bytes, std::memory_order_relaxed);
    return start;
}

void harness_unmap(void *start, std::size_t size_bytes)
{
    munmap(start, round_to_page(size_bytes));
    // The place that was given last can be given again, so that rounds that free everything do not use up addresses.
    std::uintptr_t end = reinterpret_cast<std::uintptr_t>(start) + round_to_page(size_bytes);
    next_place.compare_exchange_strong(end, reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
    resident_bytes.fetch_sub(round_to_page(size_bytes), std::memory_order_relaxed);
}

void harness_count_resident(std::size_t size_bytes)
{
    resident_bytes.fetch_add(round_to_page(size_bytes), std::memory_order_relaxed);
}

std::size_t harness_resident_bytes()
{
    return resident_bytes.load(std::memory_order_relaxed);
}

} // namespace stress
