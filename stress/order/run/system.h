// A call to the system that no interposed function sees: entry/calls.cc defines syscall() for the subject.
#pragma once

namespace stress::order {

// What the system returns: at least 0, or an errno value, negated.
long system_call(long number, long a, long b, long c, long d, long e, long f);

// How often code that was compiled with -fsanitize=thread has begun: once or more for each module that is loaded.
inline unsigned instrumented_begun = 0;

} // namespace stress::order
