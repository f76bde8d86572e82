// Shares: which words several threads of a run access, at least one of them not only reading.
//
// A preemption before an access to a word of one thread's own leads nowhere new: put off to the thread's next access to
// a shared word, or to its end, it leaves every value that anybody reads the same and costs no more. So a search stops
// only before shared words. Which they are is learned: a search that meets a new one begins anew, until it has been
// through without. Then no schedule within the bound has another one: in the first that had, the preemptions put off as
// above would make one of those that the search has been through, up to the moment where that word is met.
#pragma once

#include <cstdint>
#include <vector>

namespace stress {

class Shares {
  public:
    Shares() : cells_(kCells) {}

    // A thread is about to access the word. Whether it was known as shared when the search began.
    bool note(unsigned thread, const char *what, const volatile void *address);

    // Whether a word was met that is shared and was not known as such: the search is to begin anew.
    bool has_grown() const { return grown_; }
    void learn();

    // Words that are known as shared.
    std::uint32_t count() const { return count_; }

  private:
    static constexpr std::size_t kCells = 1 << 14;

    struct Cell {
        std::uintptr_t address = 0;
        std::uint8_t readers = 0, writers = 0;
        bool is_shared = false;
    };

    static bool is_shared_now(const Cell &cell);

    std::vector<Cell> cells_;
    std::uint32_t used_ = 0, count_ = 0;
    bool grown_ = false;
};

} // namespace stress
