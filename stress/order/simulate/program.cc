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
                           {Kind::aligned, "aligned"},
                           {Kind::resize, "resize"},
                           {Kind::own, "own"},
                           {Kind::row, "row"},
                           {Kind::replace, "replace"},
                           {Kind::many, "many"},
                           {Kind::own_new, "own-new"},
                           {Kind::own_limit, "own-limit"},
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
    std::vector<std::size_t> sizes(draw.one_in(2) ? 1 : 2 + draw.below(2));
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
    if (draw.one_in(3)) troubles.look_ms = draw.of<std::uint64_t>({1, 60, 300});
    return troubles;
}

// Draws the operations of one program.
class Drawer {
  public:
    Drawer(Draw &draw, Program &program);
    void before();
    void threads();

  private:
    bool has(Kind kind) const { return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end(); }
    std::size_t size() { return sizes_[draw_.below(sizes_.size())]; }
    Operation operation(bool is_before, Kind wanted = Kind::use);

    Draw &draw_;
    Program &program_;
    std::vector<std::size_t> sizes_;
    std::vector<Kind> kinds_; // swarm: most programs have few, some many, so that rare ones meet
    unsigned slots_ = 0;
    std::size_t many_bytes_; // of many blocks together
};

Drawer::Drawer(Draw &draw, Program &program) : draw_(draw), program_(program), sizes_(sizes_draw(draw))
{
    const unsigned rarity = draw.of({2U, 4U, 4U, 6U});
    for (const Word &word : kWords)
        if (word.kind != Kind::use && draw.one_in(rarity)) kinds_.push_back(word.kind);
    program.has_heap = has(Kind::own) || has(Kind::own_limit);
    program.stops_at_stores = has(Kind::fork) && draw.one_in(2);
    const bool has_rows = draw.one_in(4);
    if (has_rows) kinds_.push_back(Kind::row);
    slots_ = has_rows ? 24 : 2 + static_cast<unsigned>(draw.below(5));
    many_bytes_ = draw.of<std::size_t>({8, 64}) * kMiB;
}

Operation Drawer::operation(bool is_before, Kind wanted)
{
    Operation drawn{wanted, static_cast<unsigned>(draw_.below(slots_)), size()};
    if (wanted == Kind::use && !kinds_.empty() && draw_.one_in(2)) drawn.kind = kinds_[draw_.below(kinds_.size())];
    if (is_before && drawn.kind == Kind::fork) drawn.kind = Kind::use;
    switch (drawn.kind) {
    case Kind::resize: drawn.bytes = drawn.bytes * draw_.of<std::size_t>({1, 2, 4}) / 2; break;
    case Kind::aligned: drawn.more = draw_.of<std::size_t>({64, 4096, 65536, 4 * kMiB}); break;
    case Kind::row: drawn.more = 1 + draw_.below(slots_ - drawn.slot); break;
    case Kind::replace:
    case Kind::many: drawn.more = std::min(draw_.of<std::size_t>({8, 40, 300}), many_bytes_ / drawn.bytes); break;
    case Kind::jump: drawn.bytes = draw_.of<std::size_t>({1, 100, 10000, 3600000}); break;
    case Kind::own_limit: drawn.bytes = draw_.of<std::size_t>({0, kMiB, SIZE_MAX}); break;
    case Kind::limit: drawn.bytes = draw_.of<std::size_t>({8 * kMiB, 64 * kMiB, SIZE_MAX}); break;
    case Kind::limit_soft: drawn.bytes = draw_.of<std::size_t>({0, kMiB, SIZE_MAX}); break;
    case Kind::profile: drawn.bytes = draw_.of<std::size_t>({1, 16, 4096}); break;
    default: break;
    }
    return drawn;
}

void Drawer::before()
{
    for (const Kind kind : {Kind::own_limit, Kind::limit, Kind::limit_soft, Kind::profile}) // what all else meets
        if (has(kind) && draw_.one_in(2)) program_.before.push_back(operation(true, kind));
    if (draw_.one_in(2))
        for (unsigned slot = 0; slot < slots_; ++slot)
            program_.before.push_back({program_.has_heap && draw_.one_in(2) ? Kind::own : Kind::use, slot, size()});
    const std::size_t count = draw_.below(8);
    for (std::size_t i = 0; i < count; ++i) program_.before.push_back(operation(true));
}

void Drawer::threads()
{
    program_.threads.resize(2 + draw_.below(draw_.one_in(3) ? kThreadsDrawn - 1 : 2));
    const unsigned most = draw_.of({6U, 6U, 12U});
    for (unsigned i = 0; i < program_.threads.size(); ++i) {
        Program::Thread &thread = program_.threads[i];
        thread.after = i > 1 && draw_.one_in(2) ? static_cast<unsigned>(draw_.below(i)) : i;
        const std::size_t count = i == 0 && draw_.one_in(3) ? 0 : 1 + draw_.below(most); // 0: its blocks outlive it
        for (std::size_t k = 0; k < count; ++k) thread.operations.push_back(operation(false));
    }
}

} // namespace

bool Program::may_fail() const
{
    if (troubles.first != 0 || troubles.space_bytes != SIZE_MAX) return true;
    const auto limits = [](const std::vector<Operation> &operations) {
        return std::any_of(operations.begin(), operations.end(), [](const Operation &operation) {
            return operation.kind == Kind::limit || operation.kind == Kind::own_limit;
        });
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
    if (draw.one_in(6)) {
        program.environment.emplace_back("HAKMEM_GUARD_SAMPLE", draw.of({"1", "3"}));
        program.environment.emplace_back("HAKMEM_GUARD_SLOTS", draw.of({"1", "2", "1024"}));
    }
    if (draw.one_in(4)) program.environment.emplace_back("HAKMEM_PURGE_DELAY_MS", draw.of({"0", "1", "100"}));
    if (draw.one_in(6)) program.environment.emplace_back("HAKMEM_HUGE_CACHE_MIB", "0");
    Drawer drawer(draw, program);
    if (program.is_first && draw.one_in(2)) program.has_heap = false; // each thread begins with a first call
    else drawer.before();
    drawer.threads();
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
        text += fmt::format(" {}({}, {}", name, operation.slot, static_cast<std::ptrdiff_t>(operation.bytes));
        text += operation.more == 0 ? ")" : fmt::format(", {})", operation.more);
    }
    return text + "\n";
}

} // namespace

std::string program_text(const Program &program)
{
    const Troubles &troubles = program.troubles;
    std::string text = fmt::format("  program {}{}:", program.seed, program.is_first ? ", first calls" : "");
    if (program.stops_at_stores) text += " switches before each store;";
    if (program.has_heap) text += " a heap of its own;";
    for (const auto &[name, value] : program.environment) text += fmt::format(" {}={}", name, value);
    if (troubles.first != 0)
        text += fmt::format(" refused: call {}, then one in {}, of kinds {:#x};", troubles.first, troubles.every,
                            troubles.refusable);
    if (troubles.space_bytes != SIZE_MAX) text += fmt::format(" {} bytes of address space;", troubles.space_bytes);
    if (troubles.look_ms != 0) text += fmt::format(" each look at the clock moves it by {} ms;", troubles.look_ms);
    if (troubles.interrupt_every != 0) text += fmt::format(" one in {} waits ends;", troubles.interrupt_every);
    text += "\n    before:" + operations_text(program.before);
    for (unsigned i = 0; i < program.threads.size(); ++i) {
        const Program::Thread &thread = program.threads[i];
        text += fmt::format("    thread {}{}:", i, thread.after == i ? "" : fmt::format(", after {}", thread.after));
        text += operations_text(thread.operations);
    }
    return text;
}

} // namespace stress::order
