// A run that dies on a signal still says which run it was. The report has the signal, the address, the op in hand with
// its block, what was recorded so far, the seed and the command that repeats the run, the last ops and the stack of each
// thread, and the JSON result if one was asked for.
// Then the signal takes its default course.
#pragma once

#include <string>

#include "engine/base/mapped.h"
#include "engine/judge/failure.h"
#include "engine/run/result.h"
#include "engine/seat/seat.h"

namespace stress {

struct CrashContext {
    const FailureLog &failures;
    const Mapped<Seat *> &seats;
    const Result &known; // known before the run: scenario, seed, command, ...
    std::string json_path; // as in the options
    bool stacks = true; // also print the stack of every thread, which takes gdb a second
};

// Installs the handlers, except for signals that already have one (a sanitizer's). If the subject was asked for crash
// records, it learns about the run (crash_context.h); its handler comes first and then calls ours.
void crash_report_install(const CrashContext &context);
void crash_report_remove();

} // namespace stress
