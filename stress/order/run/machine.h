// A run of the subject: its threads, who continues, and the memory that they see. The entries (entry/) report to it what
// instrumented code does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "order/model/memory.h"
#include "order/model/races.h"
#include "order/run/search.h"
#include "order/run/threads.h"

namespace stress::order {

class Machine {
  public:
    struct Result {
        bool is_pruned = false; // the chooser knew what would follow
        std::optional<Race> race;
    };

    Machine(Threads &threads, Rules rules) : threads_(&threads), rules_(rules) {}

    // Runs the body in threads 0 to count - 1. What the caller did before happens before all of it.
    Result run(unsigned count, const std::function<void(unsigned)> &body, Chooser &chooser);

    // The machine whose thread calls; nullptr: no thread of a run does, and the access is none of the subject's.
    static Machine *current() { return now_ != nullptr && now_->running_ != kMain ? now_ : nullptr; }

    Seen load(const volatile void *address, unsigned bytes, Order order);
    void store(volatile void *address, unsigned bytes, Value value, Order order);
    Seen update(volatile void *address, unsigned bytes, Memory::Update kind, Value operand, Order order);
    Seen compare_exchange(volatile void *address, unsigned bytes, Value expected, Value desired, bool is_weak,
                          Order success, Order failure);
    void fence(Order order);
    void plain(const volatile void *address, std::size_t bytes, bool is_write);

  private:
    static void enter(unsigned thread);
    // Before each step that other threads can notice: here another one may continue.
    void point();
    void judge(const volatile void *address, std::size_t bytes, PlainOrAtomic kind, Event event);
    [[noreturn]] void leave();
    void hand_over(unsigned to);

    static Machine *now_;

    Threads *threads_;
    Rules rules_;
    std::optional<Memory> memory_;
    Races races_;
    Chooser *chooser_ = nullptr;
    const std::function<void(unsigned)> *body_ = nullptr;
    Result result_;
    unsigned running_ = 0, count_ = 0;
    bool is_fresh_[kThreadsMax] = {}; // has made no step
    bool has_ended_[kThreadsMax] = {};
};

} // namespace stress::order
