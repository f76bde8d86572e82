// The log of a whole run, in memory that two processes share. The process that runs writes it; the other reads it when
// the first has ended, crashed or was killed, and makes the recorded program from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/run/result.h"
#include "engine/run/run.h"
#include "engine/seat/seat_log.h"
#include "program/program.h"

namespace stress {

// An anonymous file that a child inherits by its number; -1: the system has none left.
int run_log_file();

class RunLog {
  public:
    // For the process that runs: gives the file its size and maps it, for `seats` seats with room for `room` ops each.
    // The memory counts as the harness's.
    static RunLog create(int fd, std::uint32_t seats, std::size_t room);
    // For the process that reads, once nobody writes.
    static RunLog open(int fd);
    RunLog(RunLog &&other) noexcept;
    ~RunLog();

    bool ok() const { return start_ != nullptr; }

    // Call before the run: from then on seats write to this log.
    void attach(Run &run);
    // Call after the run. A log without this belongs to a run that did not complete.
    void finish(const Result &result);

    struct Ending {
        bool finished;
        char rule[64]; // the first failure; empty: none
        char detail[400];
        ScheduleMark schedule;
    };
    const Ending &ending() const;
    std::uint32_t seats() const;
    // The number of ops that did not fit.
    std::uint64_t dropped() const;
    const OpOutcome *outcomes(std::uint32_t seat) const;
    std::size_t room() const;

    // The ops of all seats in one order that the run may have had: ordered by their stamps if it was seeded, otherwise
    // an order that the links allow. Links stay as they were; ops whose turn never came are last.
    OpList merged() const;

    // Stores the settings of the run for the reader, as the file of a program without ops.
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
