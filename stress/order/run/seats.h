// Threads of a subject that has thread-local variables and does something at the end of a thread: coroutines of one thread
// of the kernel, each with the thread-local memory of a thread that was made for it and sleeps. To switch costs no call to
// the system, and a run that is given up leaves nothing behind: the next one begins with fresh variables.
//
// Thread-specific data (pthread_key_create), destructors of thread-local objects and handlers of fork are kept here. The end of a thread, with
// what the subject does there, belongs to its turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "order/model/clock.h"
#include "order/run/fibers.h"
#include "order/run/threads.h"

namespace stress::order {

// The thread-local variables of a library: what they begin with.
struct ThreadLocal {
    std::size_t module = 0; // 0: none
    const void *start = nullptr;
    std::size_t filled = 0, bytes = 0;
};

class Seats final : public Threads {
  public:
    static constexpr unsigned kSeats = kCountedMax;

    // After the subject was loaded. Threads of the kernel are made here, so not before a fork.
    Seats(unsigned count, const ThreadLocal &variables);

    void begin(unsigned thread, void (*body)(unsigned), void (*ended)(unsigned)) override;
    void go(unsigned to) override;

  private:
    static void *sleep(void *seat);
    static void enter(unsigned thread);

    struct Seat {
        void *pointer = nullptr; // the register of thread-local memory
        std::uint32_t is_ready = 0; // a futex
        void *variables = nullptr;
        void (*body)(unsigned) = nullptr, (*ended)(unsigned) = nullptr;
    };
    Fibers fibers_;
    ThreadLocal variables_;
    std::vector<Seat> seats_;
    void *main_pointer_ = nullptr;
};

// Thread-specific data of the thread that runs, for entry/calls.cc.
class Keys {
  public:
    static constexpr unsigned kKeys = 256;
    using Destructor = void (*)(void *);

    int create(unsigned &key, Destructor destructor);
    int remove(unsigned key);
    void *get(unsigned key) const { return key < kKeys ? values_[now_][key] : nullptr; }
    int set(unsigned key, const void *value);
    void at_end(Destructor destructor, void *object) { objects_[now_].emplace_back(destructor, object); }

    // Before a fork, and in the child; nullptr: nothing.
    void at_fork(void (*prepare)(), void (*child)()) { handlers_.push_back({prepare, child}); }
    std::size_t handlers() const { return handlers_.size(); }
    // What the thread that forks calls before, last registered first, and then in the child, first registered first. A handler
    // may register others, which belong to the next fork.
    void prepare(std::size_t count) const
    {
        while (count-- > 0)
            if (void (*handler)() = handlers_[count].prepare; handler != nullptr) handler();
    }
    void fork(std::size_t count) const
    {
        for (std::size_t i = 0; i < count; ++i)
            if (void (*handler)() = handlers_[i].child; handler != nullptr) handler();
    }

    void take()
    {
        kept_ = table_;
        kept_handlers_ = handlers_.size();
    }
    void restore()
    {
        table_ = kept_;
        handlers_.resize(kept_handlers_);
    }
    // The thread that runs from now on.
    void enter(unsigned thread) { now_ = thread < Seats::kSeats ? thread : Seats::kSeats; }
    unsigned now() const { return now_; }
    void clear(unsigned thread);
    // What the end of the thread that runs calls.
    void end();

  private:
    struct Key {
        bool is_used = false;
        Destructor destructor = nullptr;
    };
    std::vector<Key> table_{kKeys}, kept_;
    struct Handlers {
        void (*prepare)() = nullptr, (*child)() = nullptr;
    };
    std::vector<Handlers> handlers_;
    std::size_t kept_handlers_ = 0;
    void *values_[Seats::kSeats + 1][kKeys] = {}; // the last row is that of who starts the run
    std::vector<std::pair<Destructor, void *>> objects_[Seats::kSeats + 1];
    unsigned now_ = Seats::kSeats;
};

Keys &keys();

} // namespace stress::order
