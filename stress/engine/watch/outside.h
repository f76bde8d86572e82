// A child that was ended by a SIGKILL which this program did not send: by the kernel's out-of-memory killer, which is
// asked to take our children first (child_start.h), or by an operator. That says nothing about the malloc, so the run is
// made again, and is inconclusive if each of kOutsideTries runs ends so.
#pragma once

#include <cstdint>
#include <string>

namespace stress {

inline constexpr unsigned kOutsideTries = 3;

// Whether a wait status says SIGKILL. Ask only if this program did not kill the child.
bool killed_from_outside(int status);

class OutsideWatch {
  public:
    // Before the first try. Reads the count of /proc/vmstat (oom_kill, Linux 4.13).
    OutsideWatch();

    // "inconclusive: SIGKILL from outside ended each of 3 runs; the kernel's out-of-memory killer ended 3 processes
    // meanwhile".
    std::string text() const;

  private:
    std::uint64_t oom_kills_;
};

} // namespace stress
