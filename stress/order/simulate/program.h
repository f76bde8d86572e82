// A small program that one seed draws: what its threads call, and what goes wrong meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "order/malloc/explore.h"
#include "order/run/troubles.h"

namespace stress::order {

struct Operation {
    enum class Kind : std::uint8_t {
        use, // allocates a block in the slot if it is empty, else frees it
        zeroed, // the same, with calloc
        aligned, // the same, with aligned_alloc
        resize, // the same, but for realloc of a block that is there
        own, // the same, in the program's own heap
        row, // uses this slot and those behind it
        replace, // of those many blocks: frees each and allocates another one; else as `many`
        many, // allocates many blocks if there are none under this number, else frees them
        // Those so far are about a block of a size.
        own_new, // makes a heap, a block in it, empties it, makes another, and destroys all
        own_limit,
        trim,
        purge_all,
        jump, // the clock
        limit,
        limit_soft,
        profile,
        figures,
        fork
    };
    Kind kind;
    unsigned slot = 0;
    std::size_t bytes = 0; // for the clock, milliseconds
    std::size_t more = 0; // of `aligned` the alignment, of `row` the number of slots, of `many` that of blocks
};

struct Program {
    struct Thread {
        unsigned after = 0; // begins when this thread has ended; its own number: at once
        std::vector<Operation> operations;
    };
    std::uint64_t seed = 0;
    std::vector<Thread> threads; // one more, the last, begins when all have ended, and frees what is left
    std::vector<Operation> before; // what the first thread does before the others may begin
    Troubles troubles;
    Bounds bounds;
    bool has_heap = false; // of its own, if the malloc has such heaps
    bool is_first = false; // the first calls of the process are the program's
    bool stops_at_stores = false; // threads may be anywhere when one of them forks
    std::vector<std::pair<std::string, std::string>> environment;

    bool may_fail() const;
};

Program program_draw(std::uint64_t seed);
std::string program_text(const Program &program);

} // namespace stress::order
