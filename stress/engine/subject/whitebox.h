// What the debug-validation build of hakmem offers beyond malloc, found by dlsym: sync points, a clock that can
// be replaced, and the laws of its books. Other mallocs have none of these, and everything here says so.
#pragma once

#include <cstdint>
#include <string>

namespace stress {

// Whether the subject has sync points and a clock of its own to give away.
bool whitebox_has_sync_points();

// Leads the sync points to a hook of the caller's (nullptr: none); false where there are none.
using SyncPointHook = void(const char *step);
bool whitebox_set_hook(SyncPointHook *hook);

// Leads the subject's sync points and its clock to the caller's, the seeded scheduler; nothing where it has none.
using ClockHook = unsigned long long();
void whitebox_attach(SyncPointHook *hook, ClockHook *clock);
void whitebox_detach();

// Checks the laws while no thread is in the subject. Empty: all hold, or the subject cannot tell.
std::string whitebox_broken_law();
bool whitebox_can_inspect();

// What is in use by the subject's own books, after a purge, while no thread is in it: exact then, in the release
// library as well. All 0 where there are no such books.
struct InUse {
    std::uint64_t blocks = 0;  // small and large ones that the program holds (hak_inspect); 0 in the release library
    std::uint64_t bytes = 0;   // small blocks outside their slab, page runs, huge blocks (hak_stats_get)
};
bool whitebox_shows_use();
InUse whitebox_in_use();

}  // namespace stress
