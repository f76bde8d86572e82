// Threads of the kernel, for a subject that has thread-local variables and does something at the end of a thread. One has
// the baton. The end of a thread, with what the subject does there, belongs to its turn.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "order/model/clock.h"
#include "order/run/threads.h"

namespace stress::order {

class KernelThreads final : public Threads {
  public:
    // Before the first thread, and after the subject was loaded: keys of pthread_key_create that exist by now are
    // destroyed before a thread counts as ended.
    KernelThreads();

    void begin(unsigned thread, void (*body)(unsigned), void (*ended)(unsigned)) override;
    void go(unsigned to) override;

  private:
    struct Seat {
        pthread_t handle{};
        std::uint32_t has_baton = 0; // a futex
        void (*body)(unsigned) = nullptr, (*ended)(unsigned) = nullptr;
        unsigned rounds = 0; // of destructors
    };
    static void *enter(void *seat);
    static void destroy(void *seat);
    Seat &seat_of(unsigned thread) { return seats_[thread == kMain ? kThreadsMax : thread]; }
    void await(Seat &seat);

    Seat seats_[kThreadsMax + 1]; // the last one is main's
    pthread_key_t key_{};
    unsigned current_ = kMain;
};

} // namespace stress::order
