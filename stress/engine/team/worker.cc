#include "engine/team/worker.h"

#include "engine/team/process_ops.h"
#include "engine/team/thread_life.h"

namespace stress {

WorkerShared worker_shared{};

Outcome worker_run(Seat &seat)
{
    while (seat.go_on()) {
        const Op *op = seat.ops.next_op();
        if (op == nullptr) return Outcome::Done;
        sched_point("op");
        if (seat.thread.cancel_in != 0 && --seat.thread.cancel_in == 0) [[unlikely]]
            thread_cancel_at_random(seat);
        if (thread_cancel_is_due(seat)) [[unlikely]]
            return Outcome::Successor;
        if (is_process_op(op->kind)) [[unlikely]] {
            const SeatNext next = process_op_apply(*op, seat, *worker_shared.failures, *worker_shared.interp);
            seat.ops.consume();
            if (next == SeatNext::Renew) return Outcome::Successor;
            if (next == SeatNext::Failed) return Outcome::Done;
            continue;
        }
        const Applied applied = seat.interp.apply(*op);
        if (applied == Applied::Waiting) return Outcome::Done;  // it stays the next op
        seat.ops.consume();
        if (applied == Applied::Failed) return Outcome::Done;
    }
    return Outcome::Done;
}

}  // namespace stress
