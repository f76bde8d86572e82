// Which thread holds which cache line: a directory as processors keep it (MESI), with caches that never evict. Each thread is
// a core of its own. A thread that starts in the place of one that ended has its cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "order/run/threads.h"

namespace stress::order {

// Of one thread, or of one place in the code.
struct Traffic {
    std::uint64_t fetches = 0; // lines that other threads hold, and this one does not
    std::uint64_t upgrades = 0; // writes to a line that this thread holds, and others too
    std::uint64_t false_sharing = 0; // of both: a write that takes a line whose last writer wrote only other words
    std::uint64_t transfers() const { return fetches + upgrades; }
    void add(const Traffic &other)
    {
        fetches += other.fetches;
        upgrades += other.upgrades;
        false_sharing += other.false_sharing;
    }
};

class Directory {
  public:
    // An access by code at `place`. What it costs; and, of what it takes, where in the code the line was written last (0: nowhere).
    struct Cost {
        Traffic traffic;
        std::uintptr_t writer = 0;
    };
    Cost touch(unsigned thread, const volatile void *address, std::size_t bytes, bool is_write, std::uintptr_t place);
    // No cache holds these lines: the system took the memory, or gave it.
    void forget(const volatile void *address, std::size_t bytes);

  private:
    static constexpr std::size_t kLineBytes = 64, kPageBytes = 4096, kWordBytes = 8;
    struct Line {
        std::uint64_t holders[kCountedMax / 64] =
            {}; // a bit a thread. A thread that wrote last and is alone has it modified
        std::uintptr_t place = 0; // of the last write
        std::uint16_t writer = kNobody; // the last one
        std::uint8_t written = 0; // words that it wrote, since it is the last one
    };
    static constexpr std::uint16_t kNobody = 0xffff;
    using Page = std::array<Line, kPageBytes / kLineBytes>;

    static Traffic touch_line(Line &line, unsigned thread, std::uint8_t words, bool is_write);

    std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_; // by address / 4096
};

} // namespace stress::order
