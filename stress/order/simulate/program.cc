#include "order/simulate/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "hakmem/hakmem.h"
#include "order/run/seats.h"

namespace stress::order {
namespace {

using Kind = Operation::Kind;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr unsigned kThreadsDrawn = 5; // at most, and the last one

struct Word {
    Kind kind;
    const char *name;
};
constexpr Word kWords[] = {{Kind::use, "use"},
                           {Kind::zeroed, "zeroed"},
                           {Kind::resize, "resize"},
                           {Kind::own, "own"},
                           {Kind::own_new, "own-new"},
                           {Kind::trim, "trim"},
                           {Kind::purge_all, "purge-all"},
                           {Kind::jump, "jump"},
                           {Kind::limit, "limit"},
                           {Kind::limit_soft, "limit-soft"},
                           {Kind::profile, "profile"},
                           {Kind::figures, "figures"},
                           {Kind::fork, "fork"}};

constexpr bool has_each_kind()
{
    for (std::size_t i = 0; i < std::size(kWords); ++i)
        if (static_cast<std::size_t>(kWords[i].kind) != i) return false;
    return std::size(kWords) == static_cast<std::size_t>(Kind::fork) + 1; // the last one
}
static_assert(has_each_kind(), "a word for each kind, in the same order");

class Draw {
  public:
    explicit Draw(std::uint64_t seed) : random_(seed) {}

    std::size_t below(std::size_t count) { return random_() % count; }
    bool one_in(unsigned count) { return below(count) == 0; }
    template <class T> T of(std::initializer_list<T> values) { return values.begin()[below(values.size())]; }

  private:
    std::mt19937_64 random_;
};

// Few sizes for each program, so that its threads meet in the same slabs.
std::vector<std::size_t> sizes_draw(Draw &draw)
{
    std::vector<std::size_t> sizes(1 + draw.below(3));
    for (std::size_t &size : sizes) {
        switch (draw.below(8)) {
        case 0:
        case 1: size = draw.of<std::size_t>({16, 64, 200}); break;
        case 2: size = draw.of<std::size_t>({1000, 5000}); break;
        case 3:
        case 4: size = 16384; break;
        case 5: size = draw.of<std::size_t>({20000, 40000, 300000}); break;
        case 6: size = draw.of<std::size_t>({kMiB, 2 * kMiB}); break;
        default: size = draw.of<std::size_t>({3 * kMiB, 5 * kMiB});
        }
    }
    return sizes;
}

Troubles troubles_draw(Draw &draw)
{
    Troubles troubles;
    if (draw.one_in(3)) {
        troubles.refusable = 1 + static_cast<unsigned>(draw.below((1 << Troubles::kCalls) - 1));
        troubles.first = 1 + static_cast<unsigned>(draw.below(6));
        troubles.every = draw.of({0U, 1U, 3U});
    }
    if (draw.one_in(6)) troubles.space_bytes = draw.of<std::size_t>({0, 4 * kMiB, 8 * kMiB, 16 * kMiB});
    if (draw.one_in(3)) troubles.interrupt_every = draw.of({2U, 3U}); // with 1 a thread could wait for ever
    return troubles;
}

// What runs, for the scenario's function.
const Program *program_now = nullptr;

struct Functions {
    std::size_t (*purge)() = nullptr, (*purge_all)() = nullptr;
    void (*limit_set)(std::size_t) = nullptr, (*limit_soft_set)(std::size_t) = nullptr;
    int (*profile_start)(std::size_t) = nullptr;
    void (*profile_stop)() = nullptr;
    void (*stats_get)(hak_stats *) = nullptr;
    hak_heap *(*heap_new)() = nullptr;
    void *(*heap_malloc)(hak_heap *, std::size_t) = nullptr;
    void (*heap_destroy)(hak_heap *) = nullptr;

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
        subject_find("hak_heap_destroy", heap_destroy);
    }
} functions;

// Of the run at hand.
struct State {
    bool is_ready = false, has_forked = false;
    hak_heap *heap = nullptr;
    hak_stats before = {}; // what the process had in use before: a list of the block that it has allocated
} state;

void use(Blocks &blocks, const Operation &operation)
{
    const auto [kind, slot, bytes] = operation;
    if (!blocks.hold(slot)) return;
    if (blocks.is_live(slot)) kind == Kind::resize ? blocks.resize(slot, bytes) : blocks.free(slot);
    else if (kind == Kind::zeroed) blocks.zeroed(slot, bytes);
    else if (kind == Kind::own && state.heap != nullptr)
        blocks.put(slot, functions.heap_malloc(state.heap, bytes), bytes, "hak_heap_malloc");
    else blocks.allocate(slot, bytes);
    blocks.drop(slot);
}

void own_new(std::size_t bytes)
{
    if (functions.heap_new == nullptr) return;
    hak_heap *heap = functions.heap_new();
    if (heap == nullptr) return;
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
    machine.fork([handlers] { keys().fork(handlers); });
}

void perform(Blocks &blocks, const Operation &operation)
{
    switch (operation.kind) {
    case Kind::use:
    case Kind::zeroed:
    case Kind::resize:
    case Kind::own: return use(blocks, operation);
    case Kind::own_new: return own_new(operation.bytes);
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

void begin(Blocks &blocks)
{
    if (!program_now->is_first && functions.stats_get != nullptr) functions.stats_get(&state.before);
    for (const Operation &operation : program_now->before)
        if (operation.kind == Kind::own && state.heap == nullptr && functions.heap_new != nullptr)
            state.heap = functions.heap_new();
    for (const Operation &operation : program_now->before) perform(blocks, operation);
    Machine &machine = *Machine::current();
    machine.release(&state);
    state.is_ready = true;
    machine.wake(&state, kThreadsMax);
}

// Nothing is live, and all other threads have ended.
void judge()
{
    Machine &machine = *Machine::current();
    if (functions.purge != nullptr) functions.purge();
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
    if (state.heap != nullptr) functions.heap_destroy(state.heap);
    judge();
    // A damaged list or slab shows when it is used again.
    unsigned slot = 0;
    for (const Operation &operation : program_now->before) {
        if (operation.kind > Kind::own || !blocks.hold(slot)) continue;
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
}

} // namespace

bool Program::may_fail() const
{
    if (troubles.first != 0 || troubles.space_bytes != SIZE_MAX) return true;
    const auto limits = [](const std::vector<Operation> &operations) {
        return std::any_of(operations.begin(), operations.end(),
                           [](const Operation &operation) { return operation.kind == Kind::limit; });
    };
    return limits(before) ||
           std::any_of(threads.begin(), threads.end(), [&](const Thread &thread) { return limits(thread.operations); });
}

Program program_draw(std::uint64_t seed)
{
    Draw draw(seed);
    Program program;
    program.seed = seed;
    program.is_first = draw.one_in(3);
    program.troubles = troubles_draw(draw);
    program.bounds = {draw.of({2U, 4U, kUnbounded}), draw.of({0U, 1U, 3U, kUnbounded})};
    if (draw.one_in(6)) program.environment.emplace_back("HAKMEM_GUARD_SAMPLE", draw.of({"1", "3"}));
    if (draw.one_in(6)) program.environment.emplace_back("HAKMEM_PURGE_DELAY_MS", draw.of({"0", "1", "100"}));
    if (draw.one_in(6)) program.environment.emplace_back("HAKMEM_HUGE_CACHE_MIB", "0");

    const std::vector<std::size_t> sizes = sizes_draw(draw);
    std::vector<Kind> kinds; // swarm: each program has few
    for (const Word &word : kWords)
        if (word.kind != Kind::use && draw.one_in(4)) kinds.push_back(word.kind);
    const unsigned slots = 2 + static_cast<unsigned>(draw.below(5));
    const auto operation = [&](bool is_before) {
        Operation drawn{Kind::use, static_cast<unsigned>(draw.below(slots)), sizes[draw.below(sizes.size())]};
        if (!kinds.empty() && draw.one_in(3)) drawn.kind = kinds[draw.below(kinds.size())];
        if (is_before && drawn.kind == Kind::fork) drawn.kind = Kind::use;
        if (drawn.kind == Kind::jump) drawn.bytes = draw.of<std::size_t>({1, 100, 10000, 3600000});
        if (drawn.kind == Kind::limit) drawn.bytes = draw.of<std::size_t>({8 * kMiB, 64 * kMiB, SIZE_MAX});
        if (drawn.kind == Kind::limit_soft) drawn.bytes = draw.of<std::size_t>({0, kMiB, SIZE_MAX});
        if (drawn.kind == Kind::profile) drawn.bytes = draw.of<std::size_t>({1, 16, 4096});
        return drawn;
    };
    const std::size_t before = draw.below(8);
    for (std::size_t i = 0; i < before; ++i) program.before.push_back(operation(true));
    program.threads.resize(2 + draw.below(draw.one_in(3) ? kThreadsDrawn - 1 : 2));
    for (unsigned i = 0; i < program.threads.size(); ++i) {
        Program::Thread &thread = program.threads[i];
        thread.after = i > 1 && draw.one_in(2) ? static_cast<unsigned>(draw.below(i)) : i;
        const std::size_t count = 1 + draw.below(6);
        for (std::size_t k = 0; k < count; ++k) thread.operations.push_back(operation(false));
    }
    return program;
}

namespace {

std::string operations_text(const std::vector<Operation> &operations)
{
    std::string text;
    for (const Operation &operation : operations) {
        const char *name = "";
        for (const Word &word : kWords)
            if (word.kind == operation.kind) name = word.name;
        text += fmt::format(" {}({}, {})", name, operation.slot, static_cast<std::ptrdiff_t>(operation.bytes));
    }
    return text + "\n";
}

} // namespace

std::string program_text(const Program &program)
{
    const Troubles &troubles = program.troubles;
    std::string text = fmt::format("  program {}{}:", program.seed, program.is_first ? ", first calls" : "");
    for (const auto &[name, value] : program.environment) text += fmt::format(" {}={}", name, value);
    if (troubles.first != 0)
        text += fmt::format(" refused: call {}, then one in {}, of kinds {:#x};", troubles.first, troubles.every,
                            troubles.refusable);
    if (troubles.space_bytes != SIZE_MAX) text += fmt::format(" {} bytes of address space;", troubles.space_bytes);
    if (troubles.interrupt_every != 0) text += fmt::format(" one in {} waits ends;", troubles.interrupt_every);
    text += "\n    before:" + operations_text(program.before);
    for (unsigned i = 0; i < program.threads.size(); ++i) {
        const Program::Thread &thread = program.threads[i];
        text += fmt::format("    thread {}{}:", i, thread.after == i ? "" : fmt::format(", after {}", thread.after));
        text += operations_text(thread.operations);
    }
    return text;
}

void program_before_run()
{
    state = {};
    troubles_now->begin();
}

Scenario program_scenario(const Program &program)
{
    program_now = &program;
    functions.find();
    return {"program", "what one seed draws", run_thread, program.is_first};
}

} // namespace stress::order
