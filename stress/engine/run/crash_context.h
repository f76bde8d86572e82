// Passes to the subject what its crash records should say about this run: seed, schedule, the threads' last ops, and
// the command that repeats it. Found by dlsym; for a malloc without hak_crash_context this does nothing.
//
// If the subject writes crash records (HAKMEM_CRASH_DIR), its handler runs before ours: see crash.h.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/mapped.h"
#include "engine/seat/seat.h"

namespace stress {

// The seats must live until crash_context_end. Only one run at a time.
void crash_context_begin(std::uint64_t seed, const std::string &reproduce, const Mapped<Seat *> &seats);
void crash_context_end();

// Call it when a seeded scheduler exists, and with nullptr when it ends.
void crash_context_schedule(const std::uint64_t *clock, const std::uint64_t *hash);

// The first takes the subject's crash handler away; the second puts it back in front of handlers that were installed
// meanwhile. False, with nothing done, if the subject has no handler or was not asked for records.
bool crash_handler_lift();
void crash_handler_put_back();

} // namespace stress
