// The --json file of a campaign: one object that contains every run's object. It is written when the campaign ends, also
// by an interruption; a kill leaves no file.
#pragma once

#include <string>

#include "campaign/soak_state.h"

namespace stress {

class Journal {
  public:
    // Empty path: writes nothing at all; "-": stdout. Removes the file of an earlier campaign. Returns what is wrong, or
    // nothing.
    std::string open(const std::string &path);
    void add(const std::string &run_json);
    // `passed`: every run was made, and none failed.
    std::string close(const SoakState &state, bool passed);

  private:
    std::string path_, text_;
};

} // namespace stress
