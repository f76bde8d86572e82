#include "engine/run/crash.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/libc.h"
#include "engine/base/safe_text.h"
#include "engine/run/crash_context.h"
#include "engine/seat/seat_report.h"
#include "engine/watch/self_stack.h"

namespace stress {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};

// The place in the prepared JSON where the handler puts what it finds.
constexpr const char *kDetailMark = "@DETAIL@";

// All of it is set before the run, because the handler may use neither stdio nor the heap.
struct Prepared {
    const FailureLog *failures = nullptr;
    const Mapped<Seat *> *seats = nullptr;
    std::uint64_t start_ns = 0;
    pid_t process = 0;
    std::string tail;         // rest of the first line
    std::string json;         // with marks; empty: no JSON was asked for
    std::string json_path;
    bool stacks = false;
    std::string json_fresh;   // written, then renamed to the path; the path itself if that is a device or a pipe
    bool torn = false;        // a write was refused
};
Prepared prepared;

std::uint64_t ops_total()
{
    std::uint64_t ops = 0;
    for (const Seat *seat : *prepared.seats) ops += read(seat->counters.ops);
    return ops;
}

void write_raw(int fd, const char *start, const char *end)
{
    while (start < end) {
        const ssize_t written = write(fd, start, static_cast<std::size_t>(end - start));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) prepared.torn = true;
        if (written <= 0) return;
        start += written;
    }
}

// Writes the prepared JSON up to the key, and this value instead of the number behind the key. Returns the text that
// follows.
const char *write_number(int fd, const char *rest, const char *key, SafeText &value)
{
    const char *found = std::strstr(rest, key);
    if (found == nullptr) return rest;
    found += std::strlen(key);
    write_raw(fd, rest, found);
    if (!value.write_to(fd)) prepared.torn = true;
    return found + std::strcspn(found, ",\n");
}

void write_json(SafeText &detail)
{
    const bool to_stdout = prepared.json_path == "-";
    const int fd =
        to_stdout ? STDOUT_FILENO : open(prepared.json_fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return;
    const std::uint64_t ms = (clock_ns() - prepared.start_ns) / 1'000'000;
    SafeText value;
    value.add_number(ops_total());
    const char *rest = write_number(fd, prepared.json.c_str(), "\"ops\": ", value);
    value.add_number(ms / 1000).add(".").add_number(ms % 1000, 10, 3);
    rest = write_number(fd, rest, "\"seconds\": ", value);
    value.add_number(ms == 0 ? 0 : ops_total() * 1000 / ms).add(".0");
    rest = write_number(fd, rest, "\"ops_per_second\": ", value);
    if (const char *found = std::strstr(rest, kDetailMark)) {
        write_raw(fd, rest, found);
        if (!value.add_json(detail.c_str()).write_to(fd)) prepared.torn = true;
        rest = found + std::strlen(kDetailMark);
    }
    write_raw(fd, rest, rest + std::strlen(rest));
    if (to_stdout) return;
    const bool whole = !prepared.torn && fsync(fd) == 0;
    const bool closed = close(fd) == 0;
    if (prepared.json_fresh == prepared.json_path) return; // a device or a pipe
    if (whole && closed) rename(prepared.json_fresh.c_str(), prepared.json_path.c_str());
    else unlink(prepared.json_fresh.c_str());
}

// "; thread 1 was in b5 = realloc(b5, 200), where b5 is 0x7ffff7fbe010 of 100 bytes"
void add_op_in_hand(SafeText &text)
{
    const auto me = static_cast<pid_t>(syscall(SYS_gettid));
    for (const Seat *seat : *prepared.seats) {
        if (seat->thread.tid.load(std::memory_order_relaxed) != me || !seat->ops.has_next()) continue;
        const Op &op = seat->ops.op(seat->ops.consumed());
        text.add("; thread ").add_number(seat->index).add(Interp::inside() ? " was in " : " was at ");
        op_line(text, op);
        const Block *block = seat->interp.block_of(op);
        if (block == nullptr || block->start == nullptr) return;
        text.add(", where b").add_number(op.slot).add(" is ");
        text.add_hex(reinterpret_cast<std::uintptr_t>(block->start)).add(" of ");
        text.add_number(block->size_bytes).add(" bytes");
        return;
    }
}

void add_what_happened(SafeText &text, int signal_number, const siginfo_t &info)
{
    text.add("the subject ended the run with signal SIG").add(signal_name(signal_number));
    if (signal_number == SIGSEGV && info.si_code == SI_KERNEL) text.add(" at an address that no program can have");
    else if (signal_number == SIGSEGV || signal_number == SIGBUS)
        text.add(" at ").add_hex(reinterpret_cast<std::uintptr_t>(info.si_addr));
    add_op_in_hand(text);
    if (prepared.failures->size() == 0) return;
    const Failure &first = (*prepared.failures)[0];
    text.add("; before that, ").add(first.rule).add(": ").add(first.detail);
}

// The first thread that crashes reports. Others that crash meanwhile wait for it to end the process; if it crashes
// again in the report, the process ends at once.
void report_once(int signal_number)
{
    static std::atomic<pid_t> reporter{0};
    const auto me = static_cast<pid_t>(syscall(SYS_gettid));
    pid_t first = 0;
    if (reporter.compare_exchange_strong(first, me)) return;
    if (first == me) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    for (;;) pause();
}

void on_crash(int signal_number, siginfo_t *info, void *)
{
    report_once(signal_number);
    SafeText text;
    text.add("hakmem-stress: ");
    add_what_happened(text, signal_number, *info);
    text.add(prepared.tail.c_str()).write_to(STDERR_FILENO);
    // The child of a fork has neither the threads nor the result.
    if (getpid() == prepared.process) {
        for (std::size_t i = 0; i < prepared.seats->size() && i < 64; ++i)
            seat_report_ops(STDERR_FILENO, *(*prepared.seats)[i]);
        add_what_happened(text, signal_number, *info);
        if (!prepared.json.empty()) write_json(text);
    }
    if (prepared.stacks) {
        self_stack_write(STDERR_FILENO, "", getpid(), static_cast<pid_t>(syscall(SYS_gettid)));
        // Again as the last line, which is all that some see.
        SafeText last;
        last.add("hakmem-stress: ");
        add_what_happened(last, signal_number, *info);
        last.add(prepared.tail.c_str()).write_to(STDERR_FILENO);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

}  // namespace

void crash_report_install(const CrashContext &context)
{
    Result result = context.known;
    result.failures = {{rule::kCrash, kDetailMark}};
    prepared.failures = &context.failures;
    prepared.seats = &context.seats;
    prepared.start_ns = clock_ns();
    prepared.process = getpid();
    prepared.tail = "; seed " + std::to_string(result.seed) + "; repeat with: " + result.reproduce + "\n";
    prepared.json = context.json_path.empty() ? "" : result_json(result);
    prepared.json_path = context.json_path;
    prepared.stacks = context.stacks;
    prepared.json_fresh = context.json_path + (file_is_replaceable(context.json_path) ? ".new" : "");
    crash_context_begin(result.seed, result.reproduce, context.seats);
    const bool lifted = crash_handler_lift();
    for (int signal_number : kSignals) {
        struct sigaction old;
        if (sigaction(signal_number, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
        struct sigaction action{};
        action.sa_sigaction = on_crash;
        action.sa_flags = SA_NODEFER | SA_SIGINFO | SA_ONSTACK;  // the crash may be an overflow of the normal stack
        sigaction(signal_number, &action, nullptr);
    }
    if (lifted) crash_handler_put_back();
}

void crash_report_remove()
{
    crash_context_end();
    const bool lifted = crash_handler_lift();
    for (int signal_number : kSignals) {
        struct sigaction old;
        if (sigaction(signal_number, nullptr, &old) == 0 && old.sa_sigaction == on_crash)
            signal(signal_number, SIG_DFL);
    }
    if (lifted) crash_handler_put_back();
    prepared.failures = nullptr;
}

}  // namespace stress
