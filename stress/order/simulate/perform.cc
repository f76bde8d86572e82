#include "order/simulate/perform.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "hakmem/hakmem.h"
#include "hakmem/validate.h"
#include "order/run/seats.h"

namespace stress::order {
namespace {

using Kind = Operation::Kind;

// What runs, for the scenario's function.
const Program *program_now = nullptr;
const Subject *subject_now = nullptr;

struct Functions {
    std::size_t (*purge)() = nullptr, (*purge_all)() = nullptr;
    void (*limit_set)(std::size_t) = nullptr, (*limit_soft_set)(std::size_t) = nullptr;
    int (*profile_start)(std::size_t) = nullptr;
    void (*profile_stop)() = nullptr;
    void (*stats_get)(hak_stats *) = nullptr;
    hak_heap *(*heap_new)() = nullptr;
    void *(*heap_malloc)(hak_heap *, std::size_t) = nullptr;
    void (*heap_free_all)(hak_heap *) = nullptr;
    void (*heap_destroy)(hak_heap *) = nullptr;
    void (*heap_limit_set)(hak_heap *, std::size_t) = nullptr;
    bool (*inspect)(hak_inspect_report *) = nullptr;

    void find()
    {
        subject_find("hak_purge", purge);
        subject_find("hak_purge_all", purge_all);
        subject_find("hak_limit_set", limit_set);
        subject_find("hak_limit_soft_set", limit_soft_set);
        subject_find("hak_profile_start", profile_start);
        subject_find("hak_profile_stop", profile_stop);
        subject_find("hak_stats_get", stats_get);
        subject_find("hak_heap_new", heap_new);
        subject_find("hak_heap_malloc", heap_malloc);
        subject_find("hak_heap_free_all", heap_free_all);
        subject_find("hak_heap_destroy", heap_destroy);
        subject_find("hak_heap_limit_set", heap_limit_set);
        subject_find("hak_inspect", inspect);
    }
} functions;

// Blocks that are handed over together. Each holds its own address.
struct Many {
    std::vector<void *> blocks;
    bool is_held = false;
};

// Of the run at hand.
struct State {
    Many many[Blocks::kSlots];
    bool is_ready = false, has_forked = false;
    bool is_torn = false; // the child has a call's first half: the thread that made it is gone
    unsigned calls = 0; // that are under way
    bool is_ending[kThreadsMax] = {};
    hak_heap *heap = nullptr;
    hak_stats before = {}; // what the process had in use before: a list of the block that it has allocated
} state;

void use(Blocks &blocks, const Operation &operation)
{
    const auto [kind, slot, bytes, more] = operation;
    if (!blocks.hold(slot)) return;
    if (blocks.is_live(slot)) kind == Kind::resize ? blocks.resize(slot, bytes) : blocks.free(slot);
    else if (kind == Kind::zeroed) blocks.zeroed(slot, bytes);
    else if (kind == Kind::aligned) blocks.aligned(slot, bytes, more);
    else if (kind == Kind::own && state.heap != nullptr)
        blocks.put(slot, functions.heap_malloc(state.heap, bytes), bytes, "hak_heap_malloc");
    else blocks.allocate(slot, bytes);
    blocks.drop(slot);
}

void row(Blocks &blocks, const Operation &operation)
{
    for (std::size_t i = 0; i < operation.more; ++i)
        use(blocks, {Kind::use, operation.slot + static_cast<unsigned>(i), operation.bytes});
}

// nullptr: the program allows that.
void *many_allocate_one(const Subject &subject, std::size_t bytes)
{
    Machine &machine = *Machine::current();
    machine.advance();
    void *block = subject.malloc(bytes);
    if (block == nullptr && program_now->may_fail()) return nullptr;
    if (block == nullptr) machine.fail(fmt::format("malloc({}) returned NULL", bytes));
    machine.plain(block, sizeof block, true, 0);
    *static_cast<void **>(block) = block;
    return block;
}

void many_free_one(const Subject &subject, void *block)
{
    Machine &machine = *Machine::current();
    machine.advance();
    machine.plain(block, sizeof block, false, 0);
    if (*static_cast<void **>(block) != block) machine.fail(fmt::format("the block at {} was written to", block));
    Blocks::free_keeping_errno(subject, block);
}

void many_free(const Subject &subject, Many &many)
{
    for (void *block : many.blocks) many_free_one(subject, block);
    many.blocks.clear();
}

void many_allocate(const Subject &subject, Many &many, std::size_t count, std::size_t bytes)
{
    for (std::size_t i = 0; i < count; ++i)
        if (void *block = many_allocate_one(subject, bytes)) many.blocks.push_back(block);
        else return;
}

void many_replace(const Subject &subject, Many &many, std::size_t bytes)
{
    for (void *&block : many.blocks) {
        many_free_one(subject, block);
        block = many_allocate_one(subject, bytes);
    }
    std::erase(many.blocks, nullptr);
}

void many(const Operation &operation)
{
    Machine &machine = *Machine::current();
    Many &many = state.many[operation.slot];
    machine.turn(&many);
    if (many.is_held) return;
    many.is_held = true;
    const bool is_empty = many.blocks.empty();
    if (!is_empty) machine.acquire(&many);
    if (is_empty) many_allocate(*subject_now, many, operation.more, operation.bytes);
    else if (operation.kind == Kind::replace) many_replace(*subject_now, many, operation.bytes);
    else many_free(*subject_now, many);
    if (!many.blocks.empty()) machine.release(&many);
    many.is_held = false;
}

void own_new(std::size_t bytes)
{
    if (functions.heap_new == nullptr) return;
    hak_heap *heap = functions.heap_new();
    if (heap == nullptr) return;
    functions.heap_malloc(heap, bytes);
    functions.heap_free_all(heap);
    functions.heap_malloc(heap, bytes);
    functions.heap_destroy(heap);
}

void profile(std::size_t bytes)
{
    if (functions.profile_start == nullptr) return;
    if (bytes % 2 == 0) functions.profile_start(bytes);
    else functions.profile_stop();
}

// The handlers that run before a fork are steps as any others. Between the last of them and the fork other threads may continue.
void continue_as_child()
{
    Machine &machine = *Machine::current();
    const std::size_t handlers = keys().handlers();
    keys().prepare(handlers);
    machine.turn(&state);
    if (machine.keeps_steps()) machine.note("fork: continues as the child");
    state.has_forked = true;
    state.is_torn |= state.calls > 1; // besides this fork
    state.calls = 1;
    for (unsigned i = 0; i < kThreadsMax; ++i) state.is_torn |= state.is_ending[i] && !machine.has_ended(i);
    machine.fork([handlers] { keys().fork(handlers); });
}

void call(Blocks &blocks, const Operation &operation)
{
    switch (operation.kind) {
    case Kind::use:
    case Kind::zeroed:
    case Kind::resize:
    case Kind::aligned:
    case Kind::own: return use(blocks, operation);
    case Kind::row: return row(blocks, operation);
    case Kind::replace:
    case Kind::many: return many(operation);
    case Kind::own_new: return own_new(operation.bytes);
    case Kind::own_limit:
        if (state.heap != nullptr) functions.heap_limit_set(state.heap, operation.bytes);
        return;
    case Kind::trim: return blocks.trim();
    case Kind::purge_all:
        if (functions.purge_all != nullptr) functions.purge_all();
        return;
    case Kind::jump: troubles_now->now_ms += operation.bytes; return;
    case Kind::limit:
        if (functions.limit_set != nullptr) functions.limit_set(operation.bytes);
        return;
    case Kind::limit_soft:
        if (functions.limit_soft_set != nullptr) functions.limit_soft_set(operation.bytes);
        return;
    case Kind::profile: return profile(operation.bytes);
    case Kind::figures:
        if (hak_stats stats; functions.stats_get != nullptr) functions.stats_get(&stats);
        return;
    case Kind::fork: return continue_as_child();
    }
}

void perform(Blocks &blocks, const Operation &operation)
{
    Machine::current()->advance();
    state.calls++;
    call(blocks, operation);
    state.calls--;
}

void begin(Blocks &blocks)
{
    Machine &machine = *Machine::current();
    machine.be_sole(subject_now->begin_thread == nullptr); // the others wait, and have called nothing
    if (!program_now->is_first && functions.stats_get != nullptr) functions.stats_get(&state.before);
    if (program_now->has_heap && functions.heap_new != nullptr) state.heap = functions.heap_new();
    for (const Operation &operation : program_now->before) perform(blocks, operation);
    machine.be_sole(false);
    machine.release(&state);
    state.is_ready = true;
    machine.wake(&state, kThreadsMax);
}

// What the child's handlers put right, whatever a thread that is gone was changing.
constexpr const char *kLawsOfEachChild[] = {"law 10: the purse has lent what heaps have bought", "law 9: warm orphans"};

// All other threads have ended.
void judge_laws()
{
    if (functions.inspect == nullptr) return;
    hak_inspect_report report;
    if (functions.inspect(&report)) return;
    const std::string_view law = report.broken_law;
    if (!state.is_torn || std::count(std::begin(kLawsOfEachChild), std::end(kLawsOfEachChild), law) > 0)
        Machine::current()->fail(fmt::format("hak_inspect: broken at {}: {}", report.address, law));
}

// Nothing is live besides.
void judge()
{
    Machine &machine = *Machine::current();
    if (functions.purge != nullptr) functions.purge();
    judge_laws();
    if (functions.stats_get == nullptr || state.has_forked || troubles_now->refused > 0) return;
    hak_stats stats;
    functions.stats_get(&stats);
    if (stats.small_bytes != state.before.small_bytes || stats.run_bytes != 0 || stats.huge_count != 0)
        machine.fail(
            fmt::format("nothing is live, yet {} bytes are in small blocks ({} before), {} in runs, {} huge blocks",
                        stats.small_bytes, state.before.small_bytes, stats.run_bytes, stats.huge_count));
}

void finish(Blocks &blocks)
{
    for (unsigned thread = 0; thread < program_now->threads.size(); ++thread) Machine::current()->join(thread);
    Machine::current()->be_sole(true);
    judge_laws();
    if (functions.limit_set != nullptr) {
        functions.limit_set(SIZE_MAX);
        functions.limit_soft_set(SIZE_MAX);
        functions.profile_stop();
    }
    for (unsigned slot = 0; slot < Blocks::kSlots; ++slot) {
        if (!blocks.is_live(slot) || !blocks.hold(slot)) continue;
        blocks.free(slot);
        blocks.drop(slot);
    }
    for (Many &many : state.many) {
        if (many.blocks.empty() || many.is_held) continue;
        Machine::current()->acquire(&many);
        many_free(*subject_now, many);
    }
    if (state.heap != nullptr) functions.heap_destroy(state.heap);
    judge();
    // A damaged list or slab shows when it is used again.
    unsigned slot = 0;
    for (const Operation &operation : program_now->before) {
        if (operation.kind > Kind::many || !blocks.hold(slot)) continue;
        blocks.allocate(slot, operation.bytes);
        blocks.drop(slot++);
    }
}

void run_thread(Blocks &blocks, unsigned self, unsigned threads)
{
    Machine &machine = *Machine::current();
    if (program_now->may_fail()) blocks.allow_null();
    if (self + 1 == threads) return finish(blocks);
    if (self == 0) begin(blocks);
    while (!state.is_ready) machine.wait(&state);
    machine.acquire(&state);
    const Program::Thread &thread = program_now->threads[self];
    if (thread.after != self) machine.join(thread.after);
    for (const Operation &operation : thread.operations) perform(blocks, operation);
    state.is_ending[self] = true;
}

} // namespace

void program_before_run()
{
    state = {};
    troubles_now->begin();
}

Scenario program_scenario(const Program &program, const Subject &subject)
{
    program_now = &program;
    subject_now = &subject;
    functions.find();
    return {"program", "what one seed draws", run_thread, program.is_first};
}

} // namespace stress::order
