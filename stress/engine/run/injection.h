// Disturbs a run from outside, whatever its scenario draws: memory is refused, or signals keep coming. Part of the
// plan; the command `inject` fills it in (inject/inject.h).
#pragma once

#include <cstdint>

namespace stress {

struct Injection {
    // Counts the system calls for memory that the subject makes, over all threads, from the first lap to the end of the
    // last sweep. Number `call`, counted from 1, fails; for ever: all later ones as well. 0: none fails.
    bool traps_calls = false;
    std::uint64_t call = 0;
    bool for_ever = false;

    // Limits RLIMIT_AS while a lap runs: to what is mapped once its first threads have started, plus this many bytes.
    // 0: no limit.
    std::uint64_t limit_bytes = 0;

    // Interrupts each seat's thread again and again, after this many microseconds. 0: never.
    std::uint64_t signal_us = 0;
    bool signals_restart = true; // SA_RESTART
    bool signals_bare = false; // the handler only counts; otherwise it also uses registers, stack and errno

    bool refuses_memory() const { return traps_calls || limit_bytes != 0; }
};

} // namespace stress
