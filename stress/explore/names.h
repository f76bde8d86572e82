// Names for the words that a run accesses: the program's symbol table names the allocator's static variables, and the
// heap itself names everything else (inside.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explore/fibers/fiber.h"

namespace stress {

class Names {
  public:
    // Reads the symbol table. If the program was stripped of it, variables appear as addresses.
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
