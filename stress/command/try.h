// Tries a program in a forked child of this process, with a deadline, and says how it ends.
//
// The forking process has no other thread and is idle, so all tries start from the same heap.
#pragma once

#include <string>

#include "engine/run/options.h"
#include "engine/subject/support.h"
#include "program/program.h"

namespace stress {

struct TrySettings {
    std::string allocator;
    Support support;
    std::optional<bool> strict;
    double hang_seconds = 1;      // without an op
    double deadline_seconds = 120;  // for the whole try
    // As in Options, but short: there are many tries, and a separate run confirms the result.
    double return_seconds = 1;
};

struct Verdict {
    std::string how;     // empty: passed; else the rule, or SIGABRT, hang, memory, exit N
    std::string detail;  // of a rule

    bool failed() const { return !how.empty(); }
};

class Tries {
  public:
    explicit Tries(TrySettings settings);
    ~Tries();
    Tries(const Tries &) = delete;
    Tries &operator=(const Tries &) = delete;

    Verdict once(const Program &program);

    TrySettings settings;
    std::uint64_t count = 0;

  private:
    struct Shared;
    Verdict run_child(const Program &program);
    [[noreturn]] void child(const Program &program);
    std::string wait(pid_t pid) const;

    Shared *shared_;
    std::uint64_t memory_limit_bytes_;
};

}  // namespace stress
