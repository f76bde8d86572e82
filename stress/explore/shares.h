// Shares: which words several threads of a run access, at least one of them not only reading.
//
// A preemption before an access to a word that only one thread uses leads to nothing new. If it is put off to the
// thread's next access to a shared word, or to the thread's end, every thread reads the same values, and the number of
// preemptions stays the same. So a search stops only before shared words. It learns which words are shared: when it
// meets a new one it starts over, until it completes without meeting one. Then no schedule within the bound has another
// shared word. Proof: take the first schedule that has one, and put off its preemptions as above. Up to the moment when
// it meets that word, this is one of the schedules that the search has run.
#pragma once

#include <cstdint>
#include <vector>

namespace stress {

class Shares {
  public:
    Shares() : cells_(kCells) {}

    // A thread is about to access the word. Returns whether the word was known as shared when the search began.
    bool note(unsigned thread, const char *what, const volatile void *address);

    // Whether a newly shared word was met, so that the search must start over.
    bool has_grown() const { return grown_; }
    void learn();

    // The number of words known as shared.
    std::uint32_t count() const { return count_; }

  private:
    static constexpr std::size_t kCells = 1 << 16;

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
