// The rows of hakmem-bench: what a row is and what it must do. rows.cc has the table. `hakmem-stress speed` runs some of
// them too.
//
// A row calls malloc and free of the process, whichever library was preloaded, and does nothing else that costs time.
// Sizes come from one multiplication or from a table, each block gets one word, as a program would write it, and
// nothing in a timed loop calls libc. If malloc returns NULL, that store ends the program with SIGSEGV, because a check
// would cost time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bench {

// When a thread of larson takes over the blocks of the one before it.
enum class Handover : std::uint8_t {
    kFree, // at once: the machine decides how long both live
    kInTurn, // after the other has ended: each chain is one thread at any time
    kOverlapping, // the other stays until the new one has done its part: each chain is two threads
};

// One run of a row.
struct Plan {
    std::uint32_t threads = 1;
    std::uint64_t ops = 0; // pairs of malloc and free in the timed part, all threads together
    std::uint64_t warm_ops = 0; // also in the warm-up before it
    std::uint64_t seed = 1;
    std::size_t low = 0, high = 0; // block sizes in bytes, both included
    std::uint32_t count = 0; // blocks of a working set, a batch or a window
    Handover handover = Handover::kFree; // of the timed part of larson
    std::uint64_t handover_pairs = 20000; // after which a thread of larson hands its window on
    bool turns = false; // one thread at a time, in a fixed order: Seat::turn. For counts, not for times

    // The share of worker `index` of `workers`; the shares add up to `total` exactly.
    static std::uint64_t share(std::uint64_t total, std::uint32_t index, std::uint32_t workers)
    {
        return total / workers + (index < total % workers ? 1 : 0);
    }
};

struct Row {
    const char *name;
    const char *shape; // what each thread is
    const char *purpose; // what it does, in one line
    const char *origin; // whose idea it was
    std::uint32_t threads; // by default
    std::uint32_t threads_step; // the number of threads must be a multiple of it
    std::uint64_t ops; // by default
    std::size_t low, high;
    std::uint32_t count;
    double (*run)(const Plan &plan); // runs both parts; returns the seconds of the timed part
    bool bulk = false; // the threads share `count`, and the warm-up is one round at most
};

std::span<const Row> rows();
const Row *row_find(std::string_view name); // nullptr if there is none

// A run of the row. The warm-up is a tenth of the timed part, but at least a few rounds over the working set. `threads` is
// a multiple of the row's step.
Plan plan_of(const Row &row, std::uint32_t threads, std::uint64_t ops, std::uint64_t seed);

// What the rows run. local.cc:
double random_mixed(const Plan &plan);
double large_mixed(const Plan &plan);
double huge_mixed(const Plan &plan);
double tight(const Plan &plan);
double short_lived(const Plan &plan);
// patterns.cc:
double lifo(const Plan &plan);
double fifo(const Plan &plan);
double random_order(const Plan &plan);
double interleaved(const Plan &plan);
double sh8(const Plan &plan);
// larson.cc, handover.cc, mstress.cc, rptest.cc:
double larson(const Plan &plan);
double remote_free(const Plan &plan);
double all_remote(const Plan &plan);
double mstress(const Plan &plan);
double rptest(const Plan &plan);

} // namespace bench
