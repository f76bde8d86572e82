// Names: what the words that a run accesses are called: the allocator's static variables by the program's own table of
// symbols, all else by the heap itself (inside.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explore/fiber.h"

namespace stress {

class Names {
  public:
    // Reads the table of symbols; where the program was stripped of it, its variables have addresses for names.
    explicit Names(const Fibers &fibers);

    std::string of(const volatile void *address) const;

  private:
    struct Symbol {
        std::uintptr_t start, end;
        std::string name;
    };

    const Fibers &fibers_;
    std::vector<Symbol> symbols_;  // sorted
};

}  // namespace stress
