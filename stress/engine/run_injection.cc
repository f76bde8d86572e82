// The part of Run that injects: what is armed, when it ends, and that the subject is well again afterwards.
#include "engine/fault_os.h"
#include "engine/run.h"
#include "engine/subject.h"
#include "engine/whitebox.h"

namespace stress {
namespace {

constexpr std::uint64_t kHeldMax = 8192;

}  // namespace

// Takes what the subject can give without a call to the system, so that the run begins where it needs one. The blocks
// are a list, each in the first word of the next.
void Run::hold_what_is_left()
{
    fault_os_arm_process(shared_, 1, true);
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
    fault_os_disarm_process();
}

void Run::let_go()
{
    while (held_ != nullptr) {
        void *const next = *static_cast<void **>(held_);
        subject::call_free(held_);
        held_ = next;
    }
}

void Run::injection_begin()
{
    if (injection_.refuses_memory()) live_blocks_before_ = whitebox_live_blocks();
    if (injection_.traps_calls) hold_what_is_left();
    if (injection_.traps_calls) fault_os_arm_process(shared_, injection_.call, injection_.for_ever);
}

// All is freed, in part while the system refused; now memory can be had again.
void Run::injection_end()
{
    if (injection_.traps_calls) {
        const FaultOsCounts counts = fault_os_disarm_process();
        injected_.os_calls += counts.calls;
        injected_.os_failures += counts.failures;
    }
    if (!injection_.refuses_memory() || !options_.check || failed() || !seats_[0]->interp.probe_recovery()) return;
    let_go();
    injected_.blocks_kept = whitebox_live_blocks() - live_blocks_before_;
}

// Once the threads of a lap stand, which need stacks of the system.
void Run::limit_begin()
{
    if (injection_.limit_bytes == 0) return;
    shared_.scarce_begin();
    if (memory_limit_set(injection_.limit_bytes) == 0) injected_.limits += 1;
}

void Run::limit_end()
{
    if (injection_.limit_bytes == 0) return;
    memory_limit_set(0);
    shared_.scarce_end();
}

}  // namespace stress
