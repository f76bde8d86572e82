// A helper thread that is stopped at a step inside the allocator while another thread forks.
//
// Law: it stays stopped until it is let go, or for kParkNsMax, since a thread that the fork itself waits for may need
// the lock that the helper holds. So a fork counts as directed only if the helper was still stopped after it.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace stress {

// Makes the subject's sync points call this file, while no other thread is in the subject. False if it has none.
bool fork_park_begin();
void fork_park_end();

class ParkedThread {
  public:
    // Sends a helper to the known step number `which`, past its first `skip` visits. Only one at a time in the process:
    // it waits a little for another to finish. Without the hook nothing is parked.
    ParkedThread(std::size_t which, std::uint32_t skip);
    // Lets it go and joins it.
    ~ParkedThread();
    ParkedThread(const ParkedThread &) = delete;
    ParkedThread &operator=(const ParkedThread &) = delete;

    bool stands() const;
    const char *step() const; // the step that it was sent to

  private:
    bool running_ = false;
    pthread_t thread_{};
};

// Called in the child, which has no such thread.
void fork_park_forked();

} // namespace stress
