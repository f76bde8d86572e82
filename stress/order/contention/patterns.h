// What the threads of a counted run do. An operation is a malloc and a free. A program writes the first word of each block
// that it allocates. It reads the word before it frees the block.
#pragma once

#include <span>
#include <vector>

#include "order/contention/counted.h"
#include "order/malloc/subject.h"

namespace stress::order {

struct OwnHeaps { // of the malloc; nullptr: it has none
    void *(*make)() = nullptr;
    void *(*malloc)(void *heap, std::size_t bytes) = nullptr;
};

class Work {
  public:
    static constexpr unsigned kEach = 500; // operations of a thread of larson until it ends; --warm is a multiple

    Work(Counted &machine, const Subject &subject, const OwnHeaps &heaps, unsigned threads, std::uint64_t seed,
         unsigned warm);

    // Threads of a seat, one after another; only for larson.
    unsigned generations() const;

    void larson(unsigned self, unsigned generation);
    void remote_free(unsigned self);
    void exchange(unsigned self);
    void churn(unsigned self);
    void own_heaps(unsigned self);
    void huge(unsigned self);

  private:
    void *take(std::size_t bytes);
    void *check(void *block, std::size_t bytes);
    void give(void *block);
    void swap(void *&slot, void *block);
    void finish();
    std::uint64_t draw(unsigned self, std::uint64_t below);
    std::size_t small(unsigned self) { return 16 + draw(self, 500); }

    Counted *machine_;
    const Subject *subject_;
    const OwnHeaps *heaps_;
    unsigned threads_, warm_;
    std::vector<std::uint64_t> random_; // by thread
    std::vector<void *> slots_;
    std::vector<unsigned> put_, taken_; // by pair of threads
    std::vector<unsigned> windows_; // that no thread has: a queue
    std::size_t first_window_ = 0;
    unsigned finished_ = 0;
};

struct Pattern {
    const char *name, *what;
    void (*thread)(Work &work, unsigned self, unsigned generation);
    bool has_generations = false, needs_heaps = false;
};

std::span<const Pattern> patterns();

} // namespace stress::order
