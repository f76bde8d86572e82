#include "engine/team/fork_child.h"

#include <fmt/core.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <new>

#include "engine/base/build.h"
#include "engine/base/clock.h"
#include "engine/base/progress.h"
#include "engine/base/libc.h"
#include "engine/seat/sched.h"
#include "engine/subject/whitebox.h"
#include "engine/team/fork_park.h"
#include "engine/team/thread_start.h"
#include "engine/watch/outside.h"
#include "engine/watch/self_stack.h"
#include "engine/watch/watcher.h"

namespace stress {
namespace {

// A sound child needs only milliseconds.
constexpr std::uint64_t kDeadlineNsMax = 20'000'000'000;
std::uint64_t deadline_ns = kDeadlineNsMax;
constexpr std::size_t kSlots = 64;
// Separates the generations of the child's blocks from the parent's.
constexpr std::uint32_t kChildSeatOffset = 3 * kOpThreadsMax;

// Slots and an interpreter for one thread of the child.
struct Worker {
    Worker(const ForkTask &task, std::uint32_t part)
        : slots(kSlots), shared{task.run.oracle, slots, stop},
          interp(shared, counters, task.seat.interp.support(),
                 task.seat.index + kChildSeatOffset + part * kOpThreadsMax, task.seat.interp.checks()),
          rng(task.salt, part), ops(task.ops)
    {
        shared.scarce = task.run.scarce;
    }

    std::atomic<bool> stop{false};
    Counters counters;
    Slots slots;
    InterpShared shared;
    Interp interp;
    Rng rng;
    std::uint64_t ops;

    void run()
    {
        for (std::uint64_t i = 0; i < ops; ++i) {
            const auto slot = static_cast<std::uint32_t>(rng.below(kSlots));
            const std::size_t bytes = rng.one_in(16) ? rng.between(1, 300'000) : rng.between(1, 3000);
            constexpr OpKind kinds[] = {OpKind::Malloc, OpKind::Calloc, OpKind::Realloc, OpKind::Free};
            if (interp.apply(op_make(kinds[rng.below(4)], slot, bytes, 1)) == Applied::Failed) return;
        }
    }

    void free_all()
    {
        for (std::uint32_t slot = 0; slot < kSlots; ++slot)
            if (!interp.sweep(slot)) return;
    }
};

void *thread_entry(void *worker)
{
    static_cast<Worker *>(worker)->run();
    return nullptr;
}

[[noreturn]] void finish(const ForkTask &task)
{
    if (!task.failures.any()) _exit(0);
    // The first failure is the cause.
    if (task.failures.size() > 0)
        std::snprintf(task.report.failure, sizeof task.report.failure, "%s: %s", task.failures[0].rule,
                      task.failures[0].detail);
    _exit(1);
}

void say(const ForkTask &task, const char *phase)
{
    task.report.phase.store(phase, std::memory_order_relaxed);
    if (task.failures.any()) finish(task);
}

// Whether no other seat ever touched the slot's block, so that its record was not being changed at the fork.
bool is_own(const ForkTask &task, std::size_t slot)
{
    const Block &block = task.run.slots.blocks[slot];
    return task.run.slots.turns[slot].load(std::memory_order_relaxed) == 0 && block.start != nullptr &&
           block.generation != 0 && generation_seat(block.generation) == task.seat.index;
}

void judge_blocks_of_parent(const ForkTask &task, Worker &worker)
{
    if (!task.seat.interp.checks()) return;
    bool kept = true;
    for (std::size_t slot = 0; slot < task.run.slots.blocks.size() && kept; ++slot)
        if (is_own(task, slot))
            kept = task.run.oracle.still_holds(task.run.slots.blocks[slot], task.seat.interp.witness());
    say(task, "freeing blocks of the parent");
    for (std::size_t slot = 0; slot < task.run.slots.blocks.size() && !task.failures.any(); slot += 2) {
        if (!is_own(task, slot)) continue;
        worker.slots.blocks[0] = task.run.slots.blocks[slot];
        task.run.slots.blocks[slot] = {}; // a grandchild will look again
        worker.interp.sweep(0);
    }
}

void start_a_thread(const ForkTask &task)
{
    Worker worker(task, 1);
    pthread_t thread;
    if (thread_create(thread, thread_entry, &worker) != 0) return; // the system has no thread left
    thread_join(thread);
    say(task, "freeing blocks of a thread of the child");
    worker.free_all();
}

void fork_again(const ForkTask &task)
{
    ForkReport *report = fork_report_make();
    if (report == nullptr) return;
    deadline_ns /= 2; // a grandchild must be given up before its parent is
    const pid_t child = fork();
    if (child == 0) {
        const ForkTask next{task.seat, task.run, task.failures, *report, task.ops / 2, task.salt + 1, false};
        fork_child_run(next);
    }
    char why[640];
    if (child > 0 && !fork_child_wait(child, *report, why))
        task.failures.add(rule::kFork, task.seat.interp.witness(), "the grandchild %s", why);
}

} // namespace

ForkReport *fork_report_make()
{
    void *start =
        mmap(nullptr, sizeof(ForkReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return start == MAP_FAILED ? nullptr : new (start) ForkReport();
}

void fork_report_free(ForkReport *report)
{
    munmap(report, sizeof(ForkReport));
}

void fork_child_run(const ForkTask &task)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_now != nullptr) sched_now->forked();
    whitebox_detach();
    fork_park_forked();
    Worker worker(task, 0);
    say(task, "reading blocks of the parent");
    judge_blocks_of_parent(task, worker);
    say(task, "its own ops");
    worker.run();
    // ThreadSanitizer does not support threads in the child of a fork.
    if (!kSanitized) {
        say(task, "a thread of its own");
        start_a_thread(task);
    }
    if (task.grandchild) {
        say(task, "a fork of its own");
        fork_again(task);
    }
    say(task, "freeing its blocks");
    worker.free_all();
    say(task, "its exit");
    finish(task);
}

void fork_child_deadline_set(double seconds)
{
    const auto ns = static_cast<std::uint64_t>(seconds * 1e9);
    deadline_ns = ns == 0 || ns > kDeadlineNsMax ? kDeadlineNsMax : ns;
}

bool fork_child_wait(pid_t child, ForkReport &report, char (&why)[640])
{
    const double deadline_seconds = static_cast<double>(deadline_ns) / 1e9;
    Watcher watcher(child, watch_limits(deadline_seconds));
    int status = 0;
    Stuck stuck = Stuck::No;
    for (long pause_ns = 20'000; waitpid(child, &status, WNOHANG) != child;) {
        if (stuck = watcher.look(); stuck != Stuck::No) break;
        const timespec pause{0, pause_ns};
        nanosleep(&pause, nullptr);
        if (pause_ns < 1'000'000) pause_ns *= 2;
    }
    const char *phase = report.phase.load(std::memory_order_relaxed);
    if (stuck != Stuck::No) {
        if (stuck != Stuck::Slow)
            self_stack_write(STDERR_FILENO, "stacks of the child of a fork, which hangs:\n", child, 0);
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        std::snprintf(why, sizeof why, "%s, at %s", watcher.text(stuck).c_str(), phase);
        return stuck == Stuck::Slow;
    }
    if (killed_from_outside(status)) {
        write_text(STDERR_FILENO, fmt::format("hakmem-stress: SIGKILL from outside ended a child of fork at {}; "
                                              "it is not judged\n",
                                              phase));
        return true;
    }
    if (WIFSIGNALED(status))
        std::snprintf(why, sizeof why, "died by SIG%s at %s", signal_name(WTERMSIG(status)), phase);
    else if (WEXITSTATUS(status) != 0)
        std::snprintf(why, sizeof why, "found at %s: %s", phase,
                      report.failure[0] != '\0' ? report.failure : "nothing that it could say");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace stress
