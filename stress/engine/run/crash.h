// A run that dies on a signal still says which run it was: the signal, what was recorded so far, the seed and
// the command that repeats it, the last ops of each thread, and the JSON result if one was asked for. Then the
// signal takes its course.
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
    const Result &known;    // what is known before the run: scenario, seed, command, ...
    std::string json_path;  // as in the options
};

// Leaves signals alone that somebody handles already (a sanitizer). Where the subject was asked for crash records it is
// told of the run (crash_context.h), and its handler comes first and then calls ours.
void crash_report_install(const CrashContext &context);
void crash_report_remove();

} // namespace stress
