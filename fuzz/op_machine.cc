#include "fuzz/op_machine.h"

#include <hakmem/hakmem.h>
#include <hakmem/validate.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "engine/judge/claim_map.h"
#include "engine/seat/interp.h"
#include "explore/inside/arena.h"
#include "explore/inside/arena_memory.h"
#include "explore/fibers/fiber.h"
#include "explore/fibers/image.h"
#include "explore/inside/inside.h"
#include "program/op_text.h"

// Functions of ThreadSanitizer; null in other programs. The interpreter is not instrumented, so the machine reports
// what orders its accesses: the ops of one slot.
extern "C" {
[[gnu::weak]] void __tsan_acquire(void *address);
[[gnu::weak]] void __tsan_release(void *address);
}

namespace fuzz {
namespace {

using namespace stress;

// If a stopped op has not ended after this many turns of it and all others, they wait for one another.
constexpr unsigned kResumesMax = 10000;

// For larger blocks, checking the content costs more than it can find here.
constexpr std::size_t kSizeOrdinaryMax = std::size_t{8} << 20;
// With larger alignments, fewer blocks than there are slots would fit into the arena.
constexpr unsigned kAlignLog2Max = 27;
static_assert(kMachineSlots <= (std::uint64_t{ARENA_GIB} << 30 >> kAlignLog2Max) / 2);

unsigned long long clock_ms = 0;
unsigned long long clock_now()
{
    return clock_ms;
}

}  // namespace

bool machine_runs(OpKind kind)
{
    switch (kind) {
    case OpKind::Purge:
    case OpKind::Renew:
    case OpKind::FailOs:
    case OpKind::Sleep: return true;
    default: return op_has_slot(kind);
    }
}

struct OpMachine::Parts {
    // A thread and its current op.
    struct Actor {
        Op op{};
        OpStop stop;
        std::size_t due = 0;      // index of the op before which it continues
        bool waits_for_lock = false;
        bool renews = false;
        bool sweeps = false;
        Parts *parts = nullptr;
    };

    // The checks of one run.
    struct Judge {
        explicit Judge(Parts &parts)
            : failures(parts.stop), oracle(parts.claims, failures), shared{oracle, parts.slots, parts.stop}
        {}

        FailureLog failures;
        Oracle oracle;
        InterpShared shared;
    };

    std::atomic<bool> stop{false};
    ClaimMap claims{ClaimMap::Callers::kOneThread};
    Slots slots{kMachineSlots};
    std::optional<Judge> judge;
    std::array<Counters, kMachineThreadsMax> counters;
    std::array<std::optional<Interp>, kMachineThreadsMax> interps;
    std::array<Actor, kMachineThreadsMax> actors;
    std::array<char, kMachineSlots> order{};  // addresses that stand for slots in reports to ThreadSanitizer
    Fibers fibers;
    Image image;
    MachineResult result;
    std::uint32_t threads = 1;
    bool failing = false;
    bool verbose = false;

    static bool on_point(void *context, stress_site &site, const volatile void *address);
    static void apply_in_fiber(void *actor);
    void reset();
    void begin(unsigned thread, const Op &op, std::size_t index);
    void finish(unsigned thread);
    void go_on_due(std::size_t index);
    void go_on_for(unsigned thread, const Op &op);
    void process_op(const Op &op);
    void fail_os_end();
    void at_end();
    void judge_rest();
    void fail(const char *rule, const char *detail);
};

// --- inside a fiber
// ----------------------------------------------------------------------------------------------------

bool OpMachine::Parts::on_point(void *context, stress_site &site, const volatile void *)
{
    auto &self = *static_cast<Parts *>(context);
    const unsigned thread = self.fibers.current();
    Actor &actor = self.actors[thread];
    // lock_wait: another thread was stopped while it held the lock
    if (&site == &Fibers::kLockWait) {
        actor.waits_for_lock = true;
        return true;
    }
    self.result.stops++;
    if (self.verbose)
        std::printf("        T%u stops at its point %u, a %s near %s, for %u ops\n", thread, actor.stop.point,
                    site.what, self.fibers.step(thread), actor.stop.ops);
    return true;
}

void OpMachine::Parts::apply_in_fiber(void *argument)
{
    Actor &actor = *static_cast<Actor *>(argument);
    Parts &self = *actor.parts;
    const unsigned thread = self.fibers.current();
    if (actor.sweeps) {
        for (std::uint32_t slot = 0; slot < kMachineSlots; ++slot) {
            if (__tsan_acquire != nullptr) __tsan_acquire(&self.order[slot]);
            if (!self.interps[thread]->sweep(slot)) return;
        }
    } else if (actor.renews) {
        inside_thread_end();
    } else if (actor.op.kind == OpKind::Purge) {
        hak_purge();
    } else {
        char *order = &self.order[actor.op.slot];
        if (__tsan_acquire != nullptr) __tsan_acquire(order);
        self.interps[thread]->apply(actor.op);
        if (__tsan_release != nullptr) __tsan_release(order);
    }
}

// --- the sequence
// ------------------------------------------------------------------------------------------------------

void OpMachine::Parts::fail(const char *rule, const char *detail)
{
    judge->failures.add(rule, {0, 0}, "%s", detail);
}

void OpMachine::Parts::reset()
{
    image.restore();
    clock_ms = 1000;
    stop = false;
    judge.emplace(*this);
    for (std::uint32_t slot = 0; slot < kMachineSlots; ++slot) slots.blocks[slot] = Block{};
    Support support;
    support.free_sized = hak_free_sized;
    support.free_aligned_sized = hak_free_aligned_sized;
    for (std::uint32_t i = 0; i < kMachineThreadsMax; ++i) {
        counters[i].ops = 0;
        interps[i].emplace(judge->shared, counters[i], support, i, true);
        actors[i] = Actor{};
        actors[i].parts = this;
    }
    failing = false;
    fibers.forget_passed();
    result = MachineResult{};
}

// Runs the thread's op to its end, and also other ops that it waits for.
void OpMachine::Parts::finish(unsigned thread)
{
    for (unsigned resumes = 0; fibers.is_stopped(thread); ++resumes) {
        if (resumes == kResumesMax) {
            fail(rule::kProgress, "stopped ops wait for one another");
            std::fputs("stopped ops wait for one another\n", stderr);
            std::abort(); // their stacks cannot be abandoned
        }
        actors[thread].waits_for_lock = false;
        fibers.resume(thread);
        for (unsigned other = 0; actors[thread].waits_for_lock && other < threads; ++other) {
            actors[other].waits_for_lock = other == thread;
            if (other != thread && fibers.is_stopped(other)) fibers.resume(other);
        }
    }
    Actor &actor = actors[thread];
    if (actor.renews) fibers.renew(thread);
    actor.renews = false;
}

void OpMachine::Parts::begin(unsigned thread, const Op &op, std::size_t index)
{
    finish(thread); // the thread may have ended while another waited for its lock, and must then begin again
    Actor &actor = actors[thread];
    actor.op = op;
    actor.op.link = 0;
    actor.stop = op_stop(op);
    fibers.ask_at(thread, actor.stop.point);
    actor.due = index + 1 + actor.stop.ops;
    actor.waits_for_lock = false;
    actor.renews = op.kind == OpKind::Renew;
    fibers.call(thread, apply_in_fiber, &actor);
    // An op that found a lock taken waits like one that was stopped, but not for long.
    if (!fibers.is_stopped(thread) || actor.waits_for_lock) finish(thread);
}

void OpMachine::Parts::go_on_due(std::size_t index)
{
    for (unsigned thread = 0; thread < threads; ++thread)
        if (fibers.is_stopped(thread) && actors[thread].due <= index) finish(thread);
}

// An op that is stopped on the same slot, or on the same thread, must end before this one begins.
void OpMachine::Parts::go_on_for(unsigned thread, const Op &op)
{
    for (unsigned other = 0; other < threads; ++other)
        if (fibers.is_stopped(other) &&
            (other == thread ||
             (op_has_slot(op.kind) && op_has_slot(actors[other].op.kind) && actors[other].op.slot == op.slot)))
            finish(other);
}

// Ops that concern no slot: the time, and the system's refusals.
void OpMachine::Parts::process_op(const Op &op)
{
    if (op.kind == OpKind::Sleep) {
        clock_ms += op_size(op);
        return;
    }
    fail_os_end();
    if (op_size(op) == 0) return;
    arena_fail(op_size(op), op.arg != 0);
    judge->shared.scarce_begin();
    failing = true;
}

void OpMachine::Parts::fail_os_end()
{
    if (!failing) return;
    arena_fail(0, false);
    judge->shared.scarce_end();
    failing = false;
}

void OpMachine::Parts::at_end()
{
    for (unsigned thread = 0; thread < threads; ++thread) finish(thread);
    fail_os_end();
    if (judge->failures.any()) return;
    fibers.on_point(nullptr, nullptr);
    actors[0].sweeps = true;
    fibers.call(0, apply_in_fiber, &actors[0]);
    actors[0].sweeps = false;
    for (unsigned thread = 0; thread < threads; ++thread) {
        actors[thread].renews = true;
        fibers.call(thread, apply_in_fiber, &actors[thread]);
        finish(thread);
    }
    fibers.on_point(on_point, this);
}

// Nothing is live and every thread has ended. The laws must hold before a purge, which would repair what was left
// behind on an orphan's queue; and after a purge nothing may be in use.
void OpMachine::Parts::judge_rest()
{
    hak_inspect_report before;
    if (!hak_inspect(&before)) return fail(rule::kLaw, before.broken_law);
    hak_purge();
    hak_inspect_report report;
    if (!hak_inspect(&report)) return fail(rule::kLaw, report.broken_law);
    hak_stats stats;
    hak_stats_get(&stats);
    char text[200];
    std::snprintf(text, sizeof text,
                  "nothing is live, yet %zu bytes are in small blocks, %zu in runs, %zu huge blocks; "
                  "%llu blocks in use by the books",
                  stats.small_bytes, stats.run_bytes, stats.huge_count,
                  static_cast<unsigned long long>(report.used_blocks));
    if (stats.small_bytes != 0 || stats.run_bytes != 0 || stats.huge_count != 0 || report.used_blocks != 0)
        return fail(rule::kBalance, text);
    if (arena_complaint() != nullptr) fail(rule::kLaw, arena_complaint());
}

OpMachine::OpMachine() : parts_(nullptr)
{
    if (!inside_begin(1)) {
        std::fputs("hakmem: there is no room of 26 GiB in the address space for the heap under test: raise ulimit -v\n",
                   stderr);
        std::exit(2);
    }
    hak_clock_hook = clock_now;
    parts_ = new Parts;
    parts_->image.take();
    parts_->fibers.on_point(Parts::on_point, parts_);
}

OpMachine::~OpMachine()
{
    delete parts_;
}

MachineResult OpMachine::run(std::span<const Op> ops, std::uint32_t threads)
{
    Parts &self = *parts_;
    self.threads = threads == 0 ? 1 : (threads > kMachineThreadsMax ? kMachineThreadsMax : threads);
    self.verbose = verbose;
    self.reset();
    const std::uint64_t failed_before = arena_failed();
    self.fibers.begin(self.threads);
    for (std::size_t i = 0; i < ops.size() && !self.judge->failures.any(); ++i) {
        Op op = ops[i];
        if (!machine_runs(op.kind)) continue;
        const unsigned thread = op.thread % self.threads;
        op.thread = static_cast<std::uint16_t>(thread);
        op.slot %= kMachineSlots;
        if (op_size(op) > kSizeOrdinaryMax && op_size(op) <= PTRDIFF_MAX) continue;
        if (op_has_align(op.kind) && op.arg > kAlignLog2Max) continue;
        self.go_on_due(i);
        if (op.kind == OpKind::Sleep || op.kind == OpKind::FailOs) {
            self.process_op(op);
            continue;
        }
        self.go_on_for(thread, op);
        if (verbose) {
            Op plain = op;
            plain.link = 0;
            std::printf("%4zu    %s\n", i, op_print(plain).c_str());
            std::fflush(stdout);
        }
        self.begin(thread, op, i);
    }
    self.at_end();
    self.fibers.end();
    if (!self.judge->failures.any()) self.judge_rest();
    if (self.judge->failures.any()) {
        self.result.rule = self.judge->failures[0].rule;
        std::memcpy(self.result.detail, self.judge->failures[0].detail, sizeof self.result.detail);
    }
    self.result.refused = arena_failed() - failed_before;
    self.result.points = self.fibers.passed().accesses;
    self.result.hash = self.fibers.passed().hash;
    arena_run(false);
    return self.result;
}

} // namespace fuzz
