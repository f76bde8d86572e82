// Makes the system refuse memory, to any malloc. A seccomp filter traps the system calls that get and return memory.
// The SIGSYS handler makes each call on the caller's behalf, unless the thread is inside the subject and a failure is
// due; then it fails the call. So mappings of the harness and of libc never fail.
//
// Two pitfalls: libc unmaps a dead thread's stack with all signals blocked, and a trapped call would then end the
// process; so under the filter threads run on stacks of ours (thread_start.cc). brk fails not with an error but by
// returning the old break.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/op/process_counts.h"
#include "engine/subject/scarcity.h"

namespace stress {

// Why a filter cannot be installed here; empty: it can. Tries it in a child.
std::string fault_os_refusal();

// Installs the filter in all threads; it stays for the life of the process. False: the system refuses.
bool fault_os_install();
bool fault_os_installed();

// Arms this thread: its nth call from now on fails, counted from 1; for ever: all later ones as well.
void fault_os_arm(ProcessCounts &counts, std::uint64_t nth, bool for_ever);
void fault_os_disarm();

// Arms the process: the nth call of all threads from now on fails, counted from 1; for ever: all later ones as well; 0:
// calls are only counted. From a failure on, `scarcity` says that memory is scarce, for one call or until
// fault_os_disarm_process. The child of a fork continues the count on its own. Call it while no thread is in the
// subject.
void fault_os_arm_process(Scarcity &scarcity, std::uint64_t nth, bool for_ever);
struct FaultOsCounts {
    std::uint64_t calls = 0, failures = 0;
};
FaultOsCounts fault_os_disarm_process();
bool fault_os_process_is_armed();

// How many bytes the subject wanted to give back to the system, by calls that were made to fail: they may stay resident.
std::uint64_t fault_os_unreturned_bytes();

// Limits RLIMIT_AS to what is mapped now plus this many bytes; 0: no limit. Returns 0 or an errno value.
int memory_limit_set(std::uint64_t more_bytes);

} // namespace stress
