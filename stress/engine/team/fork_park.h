// A helper thread that is stopped at a step inside the allocator while another thread forks.
//
// Law: it stands there until it is let go, or for kParkNsMax: a thread that the fork itself waits for may need
// the lock that the helper holds. So directed is only what still stood there after the fork.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace stress {

// Leads the subject's sync points here, while no other thread is in the subject. False where it has none.
bool fork_park_begin();
void fork_park_end();

class ParkedThread {
  public:
    // Sends a helper to the `which`-th known step, `skip` times past it. One at a time in the process: it waits a
    // little for another to be done. Where there is no hook nothing is parked.
    ParkedThread(std::size_t which, std::uint32_t skip);
    // Lets it go and joins it.
    ~ParkedThread();
    ParkedThread(const ParkedThread &) = delete;
    ParkedThread &operator=(const ParkedThread &) = delete;

    bool stands() const;
    const char *step() const;  // where it was sent

  private:
    bool running_ = false;
    pthread_t thread_{};
};

// In the child: there is no such thread.
void fork_park_forked();

}  // namespace stress
