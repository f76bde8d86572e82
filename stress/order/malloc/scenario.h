// What the threads of a run do, by malloc's public functions alone.
#pragma once

#include <span>
#include <vector>

#include "order/malloc/inside.h"
#include "order/malloc/subject.h"
#include "order/run/machine.h"

namespace stress::order {

// The threads' blocks, which belong to the run. Every block is filled, and checked before it is freed or handed over.
class Blocks {
  public:
    explicit Blocks(const Subject &subject) : subject_(&subject) {}

    // Slots are numbered. A slot that another thread fills is waited for.
    void allocate(unsigned slot, std::size_t bytes);
    void zeroed(unsigned slot, std::size_t bytes);
    void aligned(unsigned slot, std::size_t bytes, std::size_t align); // if the malloc can
    void resize(unsigned slot, std::size_t bytes);
    void free(unsigned slot);
    // Fails if the malloc's free changes errno.
    static void free_keeping_errno(const Subject &subject, void *start);
    // Nothing if the malloc has no such function.
    void trim();
    // The thread gives the slot away, or takes it: the one happens before the other.
    void give(unsigned slot);
    void take(unsigned slot);

    static constexpr unsigned kSlots = 64;
    // False: another thread has the slot. Else the thread has it, with the block that is in it, until it drops it.
    bool hold(unsigned slot);
    void drop(unsigned slot);
    bool is_live(unsigned slot) const { return blocks_[slot].start != nullptr; }
    // A function may return NULL. Then the slot stays as it was.
    void allow_null() { allows_null_ = true; }
    void put(unsigned slot, void *start, std::size_t bytes, const char *function);

  private:
    struct Block {
        unsigned char *start = nullptr;
        std::size_t bytes = 0;
        unsigned char fill = 0;
        unsigned filled = 0; // how often
        bool is_given = false, is_held = false;
    };
    template <class Use> static void each_part(std::size_t bytes, Use use);
    void fill(Block &block, void *start, std::size_t bytes, const char *function);
    void check(const Block &block, std::size_t bytes, unsigned char fill, const char *when) const;

    const Subject *subject_;
    bool allows_null_ = false;
    Block blocks_[kSlots];
};

struct Scenario {
    const char *name, *hunts;
    void (*thread)(Blocks &blocks, unsigned thread, unsigned threads);
    bool is_first = false; // the malloc was not called before; else its process has allocated and freed a block
    const order_scenario *inside = nullptr; // one that the malloc brings; then `thread` is none
};

std::span<const Scenario> scenarios();
// Those, and what the malloc brings.
std::vector<Scenario> scenarios_with(const Subject &subject);

} // namespace stress::order
