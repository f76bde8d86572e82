// The log of a whole run, in memory that two processes share: the one that runs writes it, the other one reads what
// is there when the first has ended, crashed or was killed. From it comes the recorded program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/run/result.h"
#include "engine/run/run.h"
#include "engine/seat/seat_log.h"
#include "program/program.h"

namespace stress {

// An anonymous file that a child inherits by its number; -1: the system has none.
int run_log_file();

class RunLog {
  public:
    // The one that runs: gives the file its size and maps it, for `seats` seats with room for so many ops each. The
    // memory counts as the harness's.
    static RunLog create(int fd, std::uint32_t seats, std::size_t room);
    // The one that reads, once nobody writes.
    static RunLog open(int fd);
    RunLog(RunLog &&other) noexcept;
    ~RunLog();

    bool ok() const { return start_ != nullptr; }

    // Before the run: seats write here from now on.
    void attach(Run &run);
    // After the run; a log without this is of a run that did not come to its end.
    void finish(const Result &result);

    struct Ending {
        bool finished;
        char rule[64]; // the first failure; empty: none
        char detail[400];
        ScheduleMark schedule;
    };
    const Ending &ending() const;
    std::uint32_t seats() const;
    // How many ops there was no room for.
    std::uint64_t dropped() const;
    const OpOutcome *outcomes(std::uint32_t seat) const;
    std::size_t room() const;

    // The ops of all seats in one order that the run may have had: by their stamps where it was seeded, otherwise one
    // that its links allow. Links are as they were; ops whose turn never came are last.
    OpList merged() const;

    // Where the settings of the run are kept for the reader, as the file of a program without ops.
    void set_settings(const Program &program);
    std::string settings(Program &program) const;

  private:
    struct Head;
    RunLog(void *start, std::size_t bytes) : start_(start), bytes_(bytes) {}
    Head &head() const { return *static_cast<Head *>(start_); }
    SeatLog &seat_log(std::uint32_t seat) const;
    const SeatLog::Entry *entries(std::uint32_t seat) const;

    void *start_;
    std::size_t bytes_;
};

} // namespace stress
