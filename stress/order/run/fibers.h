// Threads of a subject that needs no thread-local variables: coroutines of one kernel thread.
#pragma once

#include <cstddef>
#include <vector>

#include "order/model/clock.h"
#include "order/run/threads.h"

namespace stress::order {

class Fibers final : public Threads {
  public:
    explicit Fibers(unsigned count = kThreadsMax);
    ~Fibers() override;
    Fibers(const Fibers &) = delete;
    Fibers &operator=(const Fibers &) = delete;

    void begin(unsigned thread, void (*body)(unsigned), void (*ended)(unsigned)) override;
    void go(unsigned to) override;

  private:
    static void enter();

    struct Fiber {
        unsigned char *stack = nullptr;
        void *stack_pointer = nullptr;
        void (*body)(unsigned) = nullptr, (*ended)(unsigned) = nullptr;
    };
    std::vector<Fiber> fibers_;
    void *main_stack_pointer_ = nullptr;
    unsigned current_ = kMain;
};

} // namespace stress::order
