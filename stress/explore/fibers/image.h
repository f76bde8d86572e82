// Image: a saved copy of the linked-in allocator's whole state: its static variables and the content of the arena. Runs
// that begin with restore() begin with the same bytes. A run of about ten operations takes about ten microseconds.
//
// During take() and restore() no coroutine may be inside the allocator. The image includes the main thread's
// thread-local variables, but not those of coroutines (fiber.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "explore/inside/arena.h"

namespace stress {

class Image {
  public:
    // Saves the present state.
    void take();
    void restore() const;

    // Bytes that are saved; for reports.
    std::size_t bytes() const;

  private:
    static constexpr std::size_t kPageBytes = 4096;

    struct Page {
        unsigned char *start;
        unsigned char content[kPageBytes];
    };

    void keep_pages(unsigned char *start, unsigned char *end);

    std::vector<unsigned char> data_, own_;
    std::vector<Page> pages_; // pages of static variables and of the arena that are not all zero
    arena_books books_{};
};

} // namespace stress
