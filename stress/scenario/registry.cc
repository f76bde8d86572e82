// The list of scenarios. No other file names them all.
#include "engine/run/scenario.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr Scenario kScenarios[] = {
    {"larson",
     "threads replace random blocks in a window that outlives them: orphaned heaps and remote frees",
     {8, 1000, 200000, 256},
     larson_plan,
     larson_options},
    {"random-mixed",
     "each thread fills and frees random slots with all kinds of calls: size classes, realloc, zeroing",
     {16, 1024, 400000, 256},
     random_mixed_plan,
     random_mixed_options},
    {"remote-free",
     "blocks are freed by threads that did not allocate them, even after their owner has ended",
     {16, 1024, 150000, 256},
     remote_free_plan,
     remote_free_options},
    {"mid",
     "each thread fills and frees random slots with 1 to 8 KiB: wide classes, slabs of few blocks",
     {1024, 8192, 150000, 1024},
     mid_plan},
    {"large",
     "each thread fills and frees random slots with 32 KiB to 2 MiB: page runs that split, merge and grow",
     {32769, std::size_t{2} << 20, 3000, 48},
     large_plan},
    {"huge",
     "few blocks of 2 to 64 MiB that come, go and are reallocated: mappings, mremap and page borders",
     {(std::size_t{2} << 20) + 1, std::size_t{64} << 20, 800, 8},
     huge_plan},
    {"patterns",
     "windows freed in lifo, fifo, random, interleaved and layered order: free lists and partial slabs",
     {16, 4096, 100000, 1024},
     patterns_plan},
    {"realloc-walk",
     "blocks grow and shrink through every class border, in one thread and through all",
     {1, std::size_t{4} << 20, 60000, 64},
     realloc_walk_plan},
    {"aligned",
     "every alignment from 8 bytes to 2 MiB, with sizes equal to it, beside it and small",
     {1, std::size_t{8} << 20, 80000, 256},
     aligned_plan},
    {"calloc",
     "calloc of memory that was just freed, shrunk or purged, up to 8 MiB: it must be zero",
     {1, std::size_t{8} << 20, 30000, 128},
     calloc_plan},
    {"fragmentation",
     "fill, free all but every nth block, shift to another size class: slabs that never come back",
     {16, 32768, 120000, 131072},
     fragmentation_plan},
    {"purge-cycle",
     "allocate 64 MiB in many sizes, free it, purge or wait, touch it again",
     {16, std::size_t{1} << 20, 6000, 4096},
     purge_cycle_plan},
    {"false-sharing",
     "small blocks of several threads, some passed on and reused: no two threads in a cache line",
     {8, 64, 300000, 256},
     false_sharing_plan},
    {"thread-churn",
     "thousands of short threads, ended in all five ways, whose blocks outlive them",
     {1, 20000, 20000, 96},
     thread_churn_plan},
    {"tls-destructors",
     "threads allocate and free in C++ and key destructors, in all rounds",
     {1, 20000, 10000, 96},
     tls_destructors_plan},
    {"cancellation",
     "threads with a pending cancellation allocate and free: malloc is no cancellation point",
     {1, 40000, 20000, 96},
     cancellation_plan},
    {"small-stack",
     "threads on the smallest stack that the system allows, in fast and slow paths",
     {1, 20000, 20000, 96},
     small_stack_plan},
    {"fork",
     "forks while another thread is inside the allocator; the child uses all that it inherits",
     {1, 40000, 5000, 96},
     fork_plan},
    {"signals", "signals interrupt threads inside the allocator", {1, 20000, 20000, 96}, signals_plan},
    {"oom",
     "the nth system call for memory fails, once or for ever, or the address space is limited; then recovery",
     {1, 100000, 10000, 128},
     oom_plan},
    {"dlopen",
     "libraries with thread-local memory, constructors and objects come and go among threads",
     {1, 20000, 10000, 96},
     dlopen_plan},
    {"heaps",
     "heaps of the program's own, used by all threads at once and given back whole",
     {1, 20000, 20000, 96},
     heaps_plan},
    {"profile",
     "the heap profile's sums against what was allocated and what is live, within four standard errors",
     {1, 50000, 20000, 256},
     profile_plan},
    {"idle",
     "a burst, then all threads sleep: memory must go back while none of them calls",
     {16, 8192, 40000, 256},
     idle_plan},
    {"limit",
     "under limits that are tight, roomy, and gone: NULL only where it is right, and nothing lost",
     {1, 100000, 10000, 96},
     limit_plan},
    {"leak",
     "the same ops nine times in one process, by one thread at a time: a free in a thousand that does nothing",
     {16, 8192, 250000, 256, 9},
     leak_plan},
};

}  // namespace

std::span<const Scenario> scenarios()
{
    return kScenarios;
}

const Scenario *scenario_find(const std::string &name)
{
    for (const Scenario &scenario : kScenarios)
        if (name == scenario.name) return &scenario;
    return nullptr;
}

}  // namespace stress
