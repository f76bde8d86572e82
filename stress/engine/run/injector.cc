#include "engine/run/injector.h"

#include <cstring>

#include "engine/base/libc.h"
#include "engine/subject/fault_os.h"
#include "engine/subject/subject.h"
#include "engine/subject/whitebox.h"

namespace stress {
namespace {

constexpr std::uint64_t kHeldMax = 8192;

}  // namespace

// Takes all memory that the subject can give while the system refuses it more, so that the run begins at the point
// where the subject needs more. The blocks form a list: the first word of each points to the next.
void Injector::hold_what_is_left()
{
    std::uint64_t count = 0;
    for (std::size_t size_bytes : {65536U, 16384U, 4096U, 1024U, 256U, 64U, 16U}) {
        for (; count < kHeldMax; ++count) {
            const InsideSubject inside;
            void *const block = subject::call_malloc(size_bytes);
            if (block == nullptr) break;
            *static_cast<void **>(block) = held_;
            held_ = block;
        }
    }
}

void Injector::let_go()
{
    while (held_ != nullptr) {
        void *const next = *static_cast<void **>(held_);
        subject::call_free(held_);
        held_ = next;
    }
}

void Injector::begin()
{
    if (injection_.refuses_memory()) in_use_before_ = whitebox_in_use();
    if (!injection_.traps_calls) return;
    fault_os_arm_process(*testbed_.shared.scarce, 1, true);
    hold_what_is_left();
    fault_os_disarm_process();
    fault_os_arm_process(*testbed_.shared.scarce, injection_.call, injection_.for_ever);
}

// Everything is freed, in part while the system refused memory. Now memory can be had again.
void Injector::end()
{
    if (injection_.traps_calls) {
        const FaultOsCounts counts = fault_os_disarm_process();
        figures_.os_calls += counts.calls;
        figures_.os_failures += counts.failures;
    }
    if (!injection_.refuses_memory() || !testbed_.options.check || testbed_.failed() ||
        !testbed_.seats[0]->interp.probe_recovery())
        return;
    let_go();
    const InUse in_use = whitebox_in_use();
    figures_.blocks_kept = in_use.blocks - in_use_before_.blocks;
    figures_.bytes_kept = in_use.bytes - in_use_before_.bytes;
}

// Begins the limit once the threads of a lap have started, since their stacks come from the system. Not before the run:
// libc's own requests to the subject for starting a thread are not limited, and could bring in a whole superslab, in
// which a small scenario would run to its end.
void Injector::limit_begin()
{
    if (injection_.limit_bytes == 0) return;
    testbed_.shared.scarce_begin();
    int error = memory_limit_set(1);
    if (error == 0) {
        hold_what_is_left();
        error = memory_limit_set(injection_.limit_bytes);
    }
    if (error == 0) {
        figures_.limits += 1;
        return;
    }
    testbed_.failures.add(
        rule::kProvesNothing, testbed_.witness(),
        "the address space could not be limited to %llu bytes more than is mapped, errno %s; begin with a "
        "higher hard limit (ulimit -Hv)",
        static_cast<unsigned long long>(injection_.limit_bytes), error_name(error));
}

void Injector::limit_end()
{
    if (injection_.limit_bytes == 0) return;
    memory_limit_set(0);
    testbed_.shared.scarce_end();
}

} // namespace stress
