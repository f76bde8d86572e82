// Data races by C11 5.1.2.4 p25 and C++20 [intro.races]: two accesses of different threads to the same byte, at least one a
// write, at least one not atomic, and neither happens before the other. Exact: it keeps for each 8 bytes every access that
// a later one could race with, and forgets those only that another record replaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "order/model/clock.h"

namespace stress::order {

struct PlainOrAtomic {
    bool is_write = false;
    bool is_atomic = false;
};

struct Touch {
    Event event;
    PlainOrAtomic kind;
    std::uint8_t bytes = 0; // a bit for each of the 8
    std::uint32_t stack = 0; // whatever the caller calls its place
};

struct Race {
    std::uintptr_t address = 0; // the first byte of both
    Touch first, second;
};

class Races {
  public:
    void clear() { cells_.clear(); }
    // The access is part of the event. `clock`: what happens before it.
    std::optional<Race> touch(const volatile void *address, std::size_t bytes, PlainOrAtomic kind, Event event,
                              const Clock &clock, std::uint32_t stack);
    // Memory that the system gave or took: nothing has touched it.
    void forget(const volatile void *address, std::size_t bytes);

  private:
    std::optional<Race> touch_cell(std::uintptr_t cell, const Touch &now, const Clock &clock);

    std::unordered_map<std::uintptr_t, std::vector<Touch>> cells_; // by address / 8
};

} // namespace stress::order
