// The timed part of a run, in laps. In a lap each seat does its share of the ops, or all of them work for a share of the
// time. Before and after a lap no thread is in the subject.
#pragma once

#include <cstdint>

#include "engine/run/injector.h"
#include "engine/run/testbed.h"

namespace stress {

class Laps {
  public:
    Laps(Testbed &testbed, Injector &injector) : testbed_(testbed), injector_(injector) {}

    // Starts a thread on each seat, and returns when all have ended and are joined. Laps are numbered from 0.
    void run(std::uint32_t number);

    // Of all laps so far.
    std::uint64_t ops() const { return ops_; }
    double seconds() const { return seconds_; }

  private:
    void share_ops(std::uint32_t number);

    Testbed &testbed_;
    Injector &injector_;
    std::uint64_t ops_ = 0;
    double seconds_ = 0;
};

} // namespace stress
