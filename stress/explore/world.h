// World: what the threads of a scenario share beside the heap: blocks in numbered places, each with a content that
// tells whose it is. All of it is put back before each run, with the heap (image.h).
//
// What is looked at: no two live blocks overlap, a block's content stays, memory from calloc is zero. Only the thread
// that holds a place uses it; nothing here is a point, so a call of the allocator and what is noted of it are not torn
// apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "explore/runner.h"

namespace stress {

class World {
  public:
    static constexpr unsigned kPlaces = 200;

    explicit World(Runner &made_runner) : runner(made_runner) {}

    // A new block into a free place; zeroed: by calloc. False: the system has no memory, and that is a failure.
    bool take(unsigned place, std::size_t size_bytes, bool zeroed = false);
    // Checks the block and frees it. Nothing where the place is free.
    void give(unsigned place);
    void check(unsigned place);
    void give_all();
    bool holds(unsigned place) const { return now.places[place].start != nullptr; }
    void *block(unsigned place) const { return now.places[place].start; }

    // In setup and check: does it in that thread, unless something has failed.
    void in(unsigned thread, void (*function)(World &));
    // The calling thread ends, as the allocator sees it; and in setup: begins anew.
    void thread_end();
    void renew(unsigned thread);
    // In setup: a thread that is none of the scenario's, or the check's.
    unsigned stranger() const { return threads; }

    // In a thread: gives back what nobody uses; and, when no other thread is in the allocator, the laws of hak_inspect.
    void purge();
    void laws();

    // Alone: no two threads hold one heap (law 4).
    void heaps_apart();

    // In a body: the calling thread is the only one that a fork leaves, and runs the allocator's handler in the child.
    void fork();

    Runner &runner;
    unsigned threads = 2;

    struct Place {
        unsigned char *start;
        std::size_t size_bytes;
        std::uint32_t mark;
    };
    // What a thread is in the midst of: beyond its end, if it has stopped there for good.
    struct Call {
        enum class Kind { None, Take, Give, Purge, End };
        Kind kind;
        std::size_t size_bytes;
    };
    struct State {
        Place places[kPlaces];
        Call calls[Fibers::kMax];
        std::uint32_t marks; // given out
        std::uint64_t figures[4]; // the scenario's own
    };
    State now{};
};

} // namespace stress
