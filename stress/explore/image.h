// Image: the whole state of the linked-in allocator, kept to be put back: its static variables, and what the arena
// holds. Runs that begin with restore() begin alike, to the byte, and a run of some ten operations costs some ten
// microseconds.
//
// At take() and restore() no coroutine may be inside the allocator. The variables of coroutines' threads are not a part
// of it (fiber.h); those of the main thread are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "explore/arena.h"

namespace stress {

class Image {
  public:
    // Keeps the state as it is now.
    void take();
    void restore() const;

    // Bytes that are kept: for reports.
    std::size_t bytes() const;

  private:
    static constexpr std::size_t kPageBytes = 4096;

    struct Page {
        unsigned char *start;
        unsigned char content[kPageBytes];
    };

    void keep_pages(unsigned char *start, unsigned char *end);

    std::vector<unsigned char> data_, own_;
    std::vector<Page> pages_; // of static variables and of the arena: those that are not all zero
    arena_books books_{};
};

} // namespace stress
