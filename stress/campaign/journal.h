// The --json file of a campaign: one object that contains every run's object. It is written run by run to a temporary
// file beside it, so an interruption leaves either the old file or a complete one.
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

    // Empty path: writes nothing at all; "-": stdout. Returns what is wrong, or nothing.
    std::string open(const std::string &path);
    void add(const std::string &run_json);
    std::string close(const SoakState &state);

  private:
    void put(const std::string &text);

    std::string path_, fresh_;
    int fd_ = -1;
    int error_ = 0; // of the first write that the system refused
    bool first_ = true;
};

}  // namespace stress
