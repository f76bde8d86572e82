// What is done to a run from outside, whatever its scenario draws: memory refused, or signals all the time. A part of
// the plan; the command `inject` fills it in (inject/inject.h).
#pragma once

#include <cstdint>

namespace stress {

struct Injection {
    // System calls for memory that the subject makes are counted, over all threads, from the first lap to the end of
    // the last sweep; number `call` (from 1) fails, for ever: and all after it. 0: none.
    bool traps_calls = false;
    std::uint64_t call = 0;
    bool for_ever = false;

    // RLIMIT_AS while a lap runs: what is mapped once its first threads stand, and so many bytes more. 0: no limit.
    std::uint64_t limit_bytes = 0;

    // Interrupts each seat's thread, again and again after so many microseconds. 0: never.
    std::uint64_t signal_us = 0;
    bool signals_restart = true; // SA_RESTART
    bool signals_bare = false; // the handler counts and returns; else it also uses registers, stack and errno

    bool refuses_memory() const { return traps_calls || limit_bytes != 0; }
};

} // namespace stress
