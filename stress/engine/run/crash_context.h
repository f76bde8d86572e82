// Tells the subject what its crash records should say of this run: seed, schedule, the threads' last ops, and the
// command that repeats it. Found by dlsym; a malloc without hak_crash_context is told nothing.
//
// Where the subject writes crash records (HAKMEM_CRASH_DIR), its handler goes before ours: see crash.h.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/mapped.h"
#include "engine/seat/seat.h"

namespace stress {

// The seats live until crash_context_end. One run at a time.
void crash_context_begin(std::uint64_t seed, const std::string &reproduce, const Mapped<Seat *> &seats);
void crash_context_end();

// While a seeded scheduler exists. nullptr: there is none any more.
void crash_context_schedule(const std::uint64_t *clock, const std::uint64_t *hash);

// Takes the subject's crash handler away and puts it back, in front of what was installed meanwhile. False, and nothing
// done, where it has none or was not asked for records.
bool crash_handler_lift();
void crash_handler_put_back();

} // namespace stress
