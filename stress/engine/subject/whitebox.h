// What the debug-validation build of hakmem offers beyond malloc, found by dlsym: sync points, a replaceable clock, and
// the laws of its books. Other mallocs have none of these, and every function here reports that.
#pragma once

#include <cstdint>
#include <string>

namespace stress {

// Whether the subject lets the caller replace its sync points and its clock.
bool whitebox_has_sync_points();

// Makes the sync points call this hook (nullptr: none). False: the subject has no sync points.
using SyncPointHook = void(const char *step);
bool whitebox_set_hook(SyncPointHook *hook);

// Gives the subject the seeded scheduler's sync points and clock. Does nothing if it takes none.
using ClockHook = unsigned long long();
void whitebox_attach(SyncPointHook *hook, ClockHook *clock);
void whitebox_detach();

// Checks the laws while no thread is in the subject. Empty: all hold, or the subject cannot check them.
std::string whitebox_broken_law();
bool whitebox_can_inspect();

// What is in use according to the subject's own books, after a purge, while no thread is in it. It is exact then, also
// in the release library. All 0 if the subject has no such books.
struct InUse {
    std::uint64_t blocks = 0; // small and large blocks that the program holds (hak_inspect); 0 in the release library
    std::uint64_t bytes = 0; // small blocks outside their slab, page runs, huge blocks (hak_stats_get)
};
bool whitebox_shows_use();
InUse whitebox_in_use();

} // namespace stress
