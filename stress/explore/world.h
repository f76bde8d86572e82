// World: what the threads of a scenario share besides the heap: blocks in numbered places, each with content that
// identifies its owner. All of it is restored before each run, together with the heap (image.h).
//
// It checks that no two live blocks overlap, that a block keeps its content, and that memory from calloc is zero. Only
// the thread that holds a place uses it. Nothing here is a point, so a call of the allocator and its record are never
// separated by a switch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "explore/runner.h"

struct hak_heap;

namespace stress {

class World {
  public:
    static constexpr unsigned kPlaces = 200;

    explicit World(Runner &made_runner) : runner(made_runner) {}

    // Puts a new block into a free place; zeroed: uses calloc. False: the system has no memory, which is a failure.
    bool take(unsigned place, std::size_t size_bytes, bool zeroed = false);
    // The same from a heap of the program's own.
    bool take_in(unsigned place, hak_heap *heap, std::size_t size_bytes);
    // Resizes the block of a place.
    void resize(unsigned place, std::size_t size_bytes);
    // The blocks of these places went back all at once.
    void forget(unsigned first, unsigned count);
    // Checks the block and frees it. Does nothing if the place is free.
    void give(unsigned place);
    void check(unsigned place);
    void give_all();
    bool holds(unsigned place) const { return now.places[place].start != nullptr; }
    void *block(unsigned place) const { return now.places[place].start; }

    // For setup and check: runs the function in that thread, unless something has failed.
    void in(unsigned thread, void (*function)(World &));
    // Ends the calling thread, as the allocator sees it; in setup, it then begins again.
    void thread_end();
    void renew(unsigned thread);
    // For setup: a thread that belongs to neither the scenario nor the check.
    unsigned stranger() const { return threads; }

    // For a thread: returns unused memory to the system and, when no other thread is in the allocator, checks the laws
    // of hak_inspect.
    void purge();
    void purge_all(); // reaches other threads' heaps too
    void laws();

    // For use alone: checks that no two threads hold one heap (law 4).
    void heaps_apart();

    // For a body: makes the calling thread the only one, as after a fork, and runs the allocator's handler in the
    // child.
    void fork();

    Runner &runner;
    unsigned threads = 2;

    struct Place {
        unsigned char *start;
        std::size_t size_bytes;
        std::uint32_t mark;
    };
    // What a thread is doing; still set after its end if it has stopped there for good.
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

  private:
    bool hold(unsigned place, void *block, std::size_t size_bytes, bool zeroed);
};

} // namespace stress
