// What the process ops of a run did: the number of forks, signals, refused system calls. A scenario that is about them
// and did none has proved nothing, and says so.
#pragma once

#include <atomic>
#include <cstdint>

namespace stress {

// X(name). The names are keys of the JSON result, in this order.
#define STRESS_PROCESS_COUNTS(X)                                                                                 \
    X(forks)                                                                                                     \
    X(forks_directed)    /* while another thread was inside the allocator */                                        \
    X(signals)                                                                                                   \
    X(signals_inside)    /* hit the thread while it was inside the allocator */                                     \
    X(fail_os)           /* ops that arm a failure of the system */                                                        \
    X(os_calls)          /* for memory, trapped */                                                                        \
    X(os_failures)       /* calls that were made to fail */                                                            \
    X(limits)            /* limits of memory that were set */                                                               \
    X(blocks_kept)       /* injected runs: blocks held at the end beyond those at the start, by the subject's books */ \
    X(bytes_kept)        /* the same in bytes */                                                                        \
    X(cancellations)                                                                                             \
    X(small_stacks)                                                                                              \
    X(destructor_rounds)                                                                                         \
    X(plugins)           /* loaded */                                                                                      \
    X(getlines)                                                                                                  \
    X(heaps)             /* given back at once, with all of their blocks */                                                  \
    X(idles)             /* times that all threads slept until memory was back */                                            \
    X(profiles)          /* compared with the truth */

// Counts of one seat. One writer: the thread on the seat, or a handler that interrupts it while nothing else writes.
struct ProcessCounts {
#define X(name) std::atomic<std::uint64_t> name{0};
    STRESS_PROCESS_COUNTS(X)
#undef X
};

// Of a run.
struct ProcessFigures {
#define X(name) std::uint64_t name = 0;
    STRESS_PROCESS_COUNTS(X)
#undef X

    void add(const ProcessCounts &counts)
    {
#define X(name) name += counts.name.load(std::memory_order_relaxed);
        STRESS_PROCESS_COUNTS(X)
#undef X
    }

    void add(const ProcessFigures &figures)
    {
#define X(name) name += figures.name;
        STRESS_PROCESS_COUNTS(X)
#undef X
    }
};

}  // namespace stress
