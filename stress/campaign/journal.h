// The file of --json for a campaign: one object that holds every run's. It is written as the runs end, beside the
// file that it becomes, so that an interruption leaves the old file or a whole one.
#pragma once

#include <string>

#include "campaign/soak_state.h"

namespace stress {

class Journal {
  public:
    Journal() = default;
    Journal(const Journal &) = delete;
    Journal &operator=(const Journal &) = delete;
    ~Journal();

    // Empty path: nothing is written at all; "-": stdout. Returns what is wrong, or nothing.
    std::string open(const std::string &path);
    void add(const std::string &run_json);
    std::string close(const SoakState &state);

  private:
    std::string path_, fresh_;
    int fd_ = -1;
    bool first_ = true;
};

}  // namespace stress
