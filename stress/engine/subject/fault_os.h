// The system refuses memory, to any malloc: a seccomp filter traps the calls that get and give memory, and the
// handler of SIGSYS makes them on behalf of whoever called, except that it fails those of a thread that is inside
// the subject and has a failure due. So the harness's own mappings and libc's never fail.
//
// Traps of the field: libc gives a dead thread's stack back with all signals blocked, where a trap would end the
// process; while the filter stands, threads therefore run on stacks of ours (team.cc). brk does not fail by an
// error but by returning the old break.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/op/process_counts.h"
#include "engine/subject/scarcity.h"

namespace stress {

// Why a filter cannot be installed here; empty: it can. Tried in a child.
std::string fault_os_refusal();

// Installs the filter, for good, in all threads. False where the system refuses.
bool fault_os_install();
bool fault_os_installed();

// Arms this thread: from now on the nth call counted from 1 fails; for ever: and all after it.
void fault_os_arm(ProcessCounts &counts, std::uint64_t nth, bool for_ever);
void fault_os_disarm();

// Arms the process: from now on the nth call of all threads fails, counted from 1; for ever: and all after it; 0: they
// are only counted. Memory is scarce by `scarcity` from a failure on: for one call, or until fault_os_disarm_process.
// The child of a fork counts on by itself. While no thread is in the subject.
void fault_os_arm_process(Scarcity &scarcity, std::uint64_t nth, bool for_ever);
struct FaultOsCounts {
    std::uint64_t calls = 0, failures = 0;
};
FaultOsCounts fault_os_disarm_process();
bool fault_os_process_is_armed();

// RLIMIT_AS to what is mapped now and so many bytes more; 0: no limit. 0, or an errno value.
int memory_limit_set(std::uint64_t more_bytes);

}  // namespace stress
