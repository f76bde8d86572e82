#include "engine/seat/seat_report.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/libc.h"
#include "engine/seat/sched.h"

namespace stress {
namespace {

constexpr std::uint64_t kOpsShown = 8;
constexpr std::size_t kSeatsShown = 64;
constexpr int kFramesMax = 40;

int report_signal()
{
    return SIGRTMAX - 2;  // libraries and tests use the other end of the range
}

// The asking thread sets these before the signal, and the handler reads them; the kernel orders the two.
int asked_fd = -1;
const Seat *asked_seat = nullptr;  // nullptr: the main thread
bool asked_stack = true;
std::atomic<bool> answered{false};

// The thread that held the baton when the report began. Threads that wait for one another pass it on while they are
// asked.
std::size_t baton_ticket = 0;

const char *kind_text(OpKind kind)
{
    static constexpr const char *names[] = {
#define X(name, text, arguments) text,
        STRESS_OP_KINDS(X)
#undef X
    };
    return static_cast<std::size_t>(kind) < kOpKindCount ? names[static_cast<std::size_t>(kind)] : "?";
}

void add_slot(SafeText &text, std::uint32_t slot)
{
    text.add("b").add_number(slot);
}

void add_size(SafeText &text, std::size_t size_bytes)
{
    // Sizes near the maximum are requested on purpose, and mean little when printed in full.
    if (static_cast<std::ptrdiff_t>(size_bytes) < 0) text.add("SIZE_MAX-").add_number(SIZE_MAX - size_bytes);
    else text.add_number(size_bytes);
}

// Module and offset of each frame, as addr2line expects them. Only dladdr knows the module, so its lock is unavoidable.
void write_stack(int fd, int skip)
{
    void *frames[kFramesMax];
    const int count = stack_frames(frames, kFramesMax);
    SafeText text;
    for (int i = skip; i < count; ++i) {
        Dl_info info{};
        text.add("    ");
        if (dladdr(frames[i], &info) != 0 && info.dli_fname != nullptr) {
            const auto address = reinterpret_cast<std::uintptr_t>(frames[i]);
            text.add(info.dli_fname).add("+").add_hex(address - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
            if (info.dli_sname != nullptr)
                text.add(" ")
                    .add(info.dli_sname)
                    .add("+")
                    .add_hex(address - reinterpret_cast<std::uintptr_t>(info.dli_saddr));
        } else {
            text.add_hex(reinterpret_cast<std::uintptr_t>(frames[i]));
        }
        text.add("\n").write_to(fd);
    }
}

void write_place(int fd, const Seat *seat)
{
    SafeText text;
    if (seat == nullptr) text.add("main thread");
    else text.add("thread ").add_number(seat->index);
    text.add(": tid ").add_number(static_cast<std::uint64_t>(syscall(SYS_gettid)));
    if (Interp::inside()) {
        text.add(", inside the subject");
        if (seat != nullptr && seat->ops.has_next())
            text.add(", in ").add(kind_text(seat->ops.op(seat->ops.consumed()).kind));
    }
    if (seat != nullptr && seat->interp.waits_for() != 0)
        text.add(", waits for the op before it on slot ").add_number(seat->interp.waits_for() >> 16);
    if (seat != nullptr && sched_now != nullptr) {
        if (baton_ticket == seat->thread.ticket) text.add(", holds the baton");
        text.add(", at sync point ").add(sched_now->last_step(seat->thread.ticket));
    }
    text.add("\n").write_to(fd);
}

void on_report(int)
{
    const int error = errno;
    write_place(asked_fd, asked_seat);
    if (asked_seat != nullptr) seat_report_ops(asked_fd, *asked_seat);
    SafeText text;
    if (asked_stack) text.add("  stack:\n").write_to(asked_fd);
    if (asked_stack) write_stack(asked_fd, 2); // skips this handler and the function that writes
    // release: publishes the report. Pairs with the acquire in ask.
    answered.store(true, std::memory_order_release);
    errno = error;
}

void ask(int fd, const Seat *seat, pid_t tid, int answer_ms_max)
{
    SafeText text;
    asked_fd = fd;
    asked_seat = seat;
    answered.store(false, std::memory_order_relaxed); // last: a thread that did not answer in time may do so now
    if (syscall(SYS_tgkill, getpid(), tid, report_signal()) != 0) {
        text.add("thread ").add_number(seat != nullptr ? seat->index : 0).add(": has ended\n").write_to(fd);
        return;
    }
    for (int left_ms = answer_ms_max; !answered.load(std::memory_order_acquire); --left_ms) {
        if (left_ms == 0) {
            text.add("tid ").add_number(static_cast<std::uint64_t>(tid));
            text.add(": does not answer the signal that asks for its stack\n").write_to(fd);
            if (seat != nullptr) seat_report_ops(fd, *seat);
            return;
        }
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

} // namespace

void op_line(SafeText &text, const Op &op)
{
    const std::size_t size_bytes = op_size(op);
    if (op_allocates(op.kind) && op_has_slot(op.kind)) {
        add_slot(text, op.slot);
        text.add(" = ");
    }
    text.add(kind_text(op.kind)).add("(");
    switch (op.kind) {
    case OpKind::Malloc: add_size(text, size_bytes); break;
    case OpKind::Calloc:
        text.add_number(op.arg).add(", ");
        add_size(text, size_bytes);
        break;
    case OpKind::AlignedAlloc:
    case OpKind::PosixMemalign:
    case OpKind::Memalign:
        text.add_number(op_align(op)).add(", ");
        add_size(text, size_bytes);
        break;
    case OpKind::Realloc:
    case OpKind::ReallocArray:
        add_slot(text, op.slot);
        text.add(", ");
        if (op.kind == OpKind::ReallocArray) text.add_number(op.arg).add(", ");
        add_size(text, size_bytes);
        break;
    default:
        if (op_has_slot(op.kind)) add_slot(text, op.slot);
        else if (size_bytes != 0 || op.arg != 0) text.add_number(op.arg).add(", ").add_number(size_bytes);
        break;
    }
    text.add(")");
    if (op.link != 0) text.add(" link ").add_number(op.link);
}

std::uint64_t seat_report_heading(SafeText &text, const Seat &seat)
{
    text.add("  last ops of thread ").add_number(seat.index).add(":\n");
    return seat.ops.has_next() ? seat.ops.consumed() + 1 : seat.ops.consumed();
}

void seat_report_ops(int fd, const Seat &seat)
{
    seat_report_lines(seat, kOpsShown, [fd](SafeText &text) { text.write_to(fd); });
}

void seat_report_prepare()
{
    void *frame = nullptr;
    stack_frames(&frame, 1);
    struct sigaction action{};
    action.sa_handler = on_report;
    action.sa_flags = SA_RESTART;
    sigaction(report_signal(), &action, nullptr);
}

void seat_report_all(int fd, const Mapped<Seat *> &seats, bool stacks, int answer_ms_max)
{
    asked_stack = stacks;
    bool any = false;
    if (sched_now != nullptr) baton_ticket = sched_now->current();
    const std::size_t shown = std::min(seats.size(), kSeatsShown);
    for (std::size_t i = 0; i < shown; ++i) {
        const pid_t tid = seats[i]->thread.tid.load(std::memory_order_relaxed);
        if (tid == 0) continue;
        any = true;
        ask(fd, seats[i], tid, answer_ms_max);
    }
    SafeText text;
    if (shown < seats.size()) text.add("and ").add_number(seats.size() - shown).add(" more threads\n").write_to(fd);
    if (any) return;
    ask(fd, nullptr, getpid(), answer_ms_max);
    for (std::size_t i = 0; i < shown; ++i) seat_report_ops(fd, *seats[i]);
}

} // namespace stress
