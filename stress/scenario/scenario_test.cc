// Tests every registered scenario: its plan is a function of the seed, its ops can be applied, its links never jam, and
// it draws the ops that its purpose names. No subject is called: an executor runs the plan alone and keeps turns as the
// engine does.
//
// More than 400 lines: one executor runs the plans of all scenarios.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "engine/base/build.h"
#include "engine/run/options_parse.h"
#include "engine/run/scenario.h"
#include "engine/seat/interp.h"
#include "scenario/draws.h"

namespace stress {

void PrintTo(const Scenario &scenario, std::ostream *out)
{
    *out << scenario.name;
}

namespace {

constexpr std::uint32_t kNobody = ~0U;

// Options as the program parses them.
Options options_of(const char *scenario, std::vector<std::string> words)
{
    std::vector<const char *> argv = {"hakmem-stress", scenario};
    for (const std::string &word : words) argv.push_back(word.c_str());
    const ParseOutcome outcome = options_parse(static_cast<int>(argv.size()), argv.data());
    EXPECT_TRUE(outcome.run) << outcome.text;
    return outcome.options;
}

Plan plan_of(const Scenario &scenario, const Options &options, std::uint64_t seed)
{
    return scenario.plan({options, seed, options.threads});
}

std::vector<Op> draw(Plan &plan, std::uint32_t seat, std::size_t count)
{
    std::vector<Op> ops(count);
    std::size_t drawn = 0;
    while (drawn < count) {
        const std::size_t more = plan.generators[seat]->fill(&ops[drawn], count - drawn);
        if (more == 0) break;
        drawn += more;
    }
    ops.resize(drawn);
    return ops;
}

bool equal(const std::vector<Op> &a, const std::vector<Op> &b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Op)) == 0;
}

// Applies a plan without a subject. Keeps track of turns, and of the last user of each slot.
class Executor {
  public:
    explicit Executor(Plan &plan)
        : plan_(plan), slots_(plan.slot_count), users_(plan.slot_count, kNobody), pending_(plan.generators.size()),
          has_pending_(plan.generators.size()), ended_(plan.generators.size())
    {}

    // What is wrong with the plan; empty: nothing so far.
    const std::string &fault() const { return fault_; }
    const std::vector<Op> &done() const { return done_; }

    // Continues with a seat for at most `ops` ops; returns how many were applied.
    std::size_t step(std::uint32_t seat, std::size_t ops)
    {
        std::size_t applied = 0;
        for (; applied < ops && fault_.empty(); ++applied) {
            if (!fetch(seat)) break;
            const Op op = pending_[seat];
            if (op_has_slot(op.kind) && !use(seat, op)) break;
            has_pending_[seat] = false;
            done_.push_back(op);
        }
        return applied;
    }

    bool all_ended() const { return std::count(ended_.begin(), ended_.end(), true) == std::ssize(ended_); }

  private:
    bool fetch(std::uint32_t seat)
    {
        if (has_pending_[seat]) return true;
        if (plan_.generators[seat]->fill(&pending_[seat], 1) == 0) {
            ended_[seat] = true;
            return false;
        }
        has_pending_[seat] = true;
        return true;
    }

    // False: not in turn yet, or the plan is wrong.
    bool use(std::uint32_t seat, const Op &op)
    {
        if (op.slot >= plan_.slot_count) {
            fault_ = "slot " + std::to_string(op.slot) + " of " + std::to_string(plan_.slot_count);
            return false;
        }
        if (op.link != 0) {
            if (!Interp::in_turn(slots_, op.slot, op.link)) return false;
            slots_.turns[op.slot].store(op.link, std::memory_order_relaxed);
        } else if (users_[op.slot] != kNobody && users_[op.slot] != seat) {
            fault_ = "slot " + std::to_string(op.slot) + " is used without a link by seats " +
                     std::to_string(users_[op.slot]) + " and " + std::to_string(seat);
            return false;
        }
        users_[op.slot] = seat;
        return true;
    }

    Plan &plan_;
    Slots slots_;
    std::vector<std::uint32_t> users_;
    std::vector<Op> pending_;
    std::vector<char> has_pending_, ended_;
    std::vector<Op> done_;
    std::string fault_;
};

// Round-robin, `stride` ops at a time. Ends when all seats together could have done `count` ops and each has done a
// tenth of its share, or when no seat can continue.
std::vector<Op> execute_plan(Plan &plan, std::size_t count, std::size_t stride, const std::string &what)
{
    Executor executor(plan);
    const std::size_t seats = plan.generators.size();
    std::vector<std::size_t> done(seats);
    const auto least = [&done] { return *std::min_element(done.begin(), done.end()); };
    bool moved = true;
    while (moved && (executor.done().size() < count || least() < count / seats / 10) &&
           executor.done().size() < 20 * (count + stride)) {
        moved = false;
        for (std::uint32_t seat = 0; seat < seats; ++seat) {
            const std::size_t applied = executor.step(seat, stride);
            done[seat] += applied;
            moved |= applied > 0;
        }
    }
    EXPECT_EQ(executor.fault(), "") << what;
    EXPECT_TRUE(moved || executor.all_ended()) << what << ": jammed after " << executor.done().size() << " ops";
    EXPECT_TRUE(least() >= count / seats / 10 || executor.all_ended())
        << what << ": a seat did only " << least() << " of " << executor.done().size() << " ops";
    return executor.done();
}

class EachScenario : public testing::TestWithParam<Scenario> {};

TEST_P(EachScenario, TheSeedDecidesThePlan)
{
    const Options options = options_of(GetParam().name, {"--threads", "4", "--ops", "20000"});
    Plan first = plan_of(GetParam(), options, 7), again = plan_of(GetParam(), options, 7),
         other = plan_of(GetParam(), options, 8);
    ASSERT_EQ(first.generators.size(), options.threads);
    bool differs = false;
    for (std::uint32_t seat = 0; seat < options.threads; ++seat) {
        const std::vector<Op> ops = draw(first, seat, 3000);
        EXPECT_TRUE(equal(ops, draw(again, seat, 3000))) << "seat " << seat;
        differs |= !equal(ops, draw(other, seat, 3000));
    }
    EXPECT_TRUE(differs);
}

// A recorded run with such an op leaves a file that nobody reads: the op counts as out of range.
TEST_P(EachScenario, DrawsNoOpWithAFieldThatItsKindHasNot)
{
    const Options options = options_of(GetParam().name, {"--threads", "4", "--ops", "20000"});
    Plan plan = plan_of(GetParam(), options, 7);
    for (std::uint32_t seat = 0; seat < options.threads; ++seat)
        for (const Op &op : draw(plan, seat, 3000)) {
            Op plain = op_normalise(op);
            plain.link = op.link;
            plain.thread = op.thread;
            ASSERT_EQ(std::memcmp(&plain, &op, sizeof op), 0)
                << "kind " << static_cast<int>(op.kind) << " of seat " << seat;
        }
}

TEST_P(EachScenario, NeverJams)
{
    const std::uint64_t seeds = kSanitized ? 1 : 2;
    for (const char *threads : {"1", "2", "3", "8"})
        for (const char *ops : {"20000", "100000000"})
            for (const char *check : {"--check", "--no-check"})
                for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
                    const Options options = options_of(GetParam().name, {"--threads", threads, "--ops", ops, check});
                    for (const std::size_t stride : {std::size_t{1}, std::size_t{5000}}) {
                        Plan plan = plan_of(GetParam(), options, seed);
                        EXPECT_LE(plan.slot_count, kOpSlotsMax);
                        execute_plan(plan, 60000, stride,
                                     std::string(threads) + " threads, --ops " + ops + " " + check + " --seed " +
                                         std::to_string(seed));
                    }
                }
}

// What a scenario must draw: at least this many ops of a kind, with sizes from min to max bytes.
struct Drawn {
    const char *scenario;
    OpKind kind;
    std::size_t at_least;
    bool linked = false; // count only ops that are handed over
    std::size_t min_bytes = 0, max_bytes = SIZE_MAX;
};

constexpr std::size_t kKiB = 1024, kMiB = kKiB << 10;

// In 8 runs of 100000 ops each, checked, with 4 threads. Swarm switches ops off in some of them.
const Drawn kDrawn[] = {
    {"larson", OpKind::Renew, 100},
    {"larson", OpKind::Free, 2000, true},
    {"larson", OpKind::Realloc, 1000},
    {"larson", OpKind::Calloc, 1000},
    {"random-mixed", OpKind::Realloc, 10000},
    {"random-mixed", OpKind::Calloc, 10000},
    {"random-mixed", OpKind::Memalign, 10000},
    {"remote-free", OpKind::Malloc, 100000, true},
    {"remote-free", OpKind::Free, 100000, true},
    {"remote-free", OpKind::Realloc, 1000, true},
    {"remote-free", OpKind::Calloc, 1000, true},
    {"remote-free", OpKind::Renew, 500},
    {"mid", OpKind::Malloc, 100000, false, 1024, 8192},
    {"mid", OpKind::Realloc, 10000, false, 1024, 8192},
    {"large", OpKind::Malloc, 50000, false, 32 * kKiB + 1, 2 * kMiB},
    {"large", OpKind::Malloc, 10000, false, kMiB, 2 * kMiB},
    {"large", OpKind::Realloc, 10000, false, 32 * kKiB + 1, 2 * kMiB},
    {"huge", OpKind::Malloc, 50000, false, 2 * kMiB + 1, 64 * kMiB},
    {"huge", OpKind::Malloc, 1000, false, 16 * kMiB, 64 * kMiB},
    {"huge", OpKind::Realloc, 50000, false, 2 * kMiB + 1, 64 * kMiB},
    {"patterns", OpKind::Malloc, 200000, false, 16, 4096},
    {"patterns", OpKind::Free, 200000},
    {"realloc-walk", OpKind::Realloc, 200000},
    {"realloc-walk", OpKind::Realloc, 1000, false, 2 * kMiB + 1, 4 * kMiB},
    {"realloc-walk", OpKind::Realloc, 2000, false, 1, 24},
    {"realloc-walk", OpKind::Realloc, 10000, true},
    {"realloc-walk", OpKind::ReallocArray, 20000},
    {"realloc-walk", OpKind::Memalign, 100},
    {"aligned", OpKind::AlignedAlloc, 20000},
    {"aligned", OpKind::PosixMemalign, 20000},
    {"aligned", OpKind::Memalign, 20000},
    {"aligned", OpKind::FreeAlignedSized, 10000},
    {"aligned", OpKind::Realloc, 10000},
    {"calloc", OpKind::Calloc, 100000},
    {"calloc", OpKind::Calloc, 50, false, 4 * kMiB, 8 * kMiB},
    {"calloc", OpKind::Realloc, 5000},
    {"calloc", OpKind::Purge, 100},
    {"fragmentation", OpKind::Malloc, 200000, false, 16, 32 * kKiB},
    {"fragmentation", OpKind::Malloc, 10000, false, 8 * kKiB, 32 * kKiB},
    {"fragmentation", OpKind::Free, 200000},
    {"purge-cycle", OpKind::Purge, 20},
    {"purge-cycle", OpKind::Sleep, 5},
    {"purge-cycle", OpKind::Check, 1000},
    {"purge-cycle", OpKind::Malloc, 1000, false, 512 * kKiB, kMiB},
    {"false-sharing", OpKind::Malloc, 100000, false, 8, 64},
    {"false-sharing", OpKind::Malloc, 20000, true, 8, 64},
    {"false-sharing", OpKind::Free, 20000, true},
    {"thread-churn", OpKind::Renew, 2000},
    {"tls-destructors", OpKind::Renew, 2000},
    {"cancellation", OpKind::Renew, 2000},
    {"small-stack", OpKind::Renew, 2000},
    {"fork", OpKind::Fork, 2000},
    {"fork", OpKind::GetLine, 500},
    {"fork", OpKind::FlushAll, 200},
    {"signals", OpKind::Signals, 300},
    {"oom", OpKind::FailOs, 500},
    {"oom", OpKind::LimitMemory, 500},
    {"dlopen", OpKind::Dlopen, 1000},
    {"heaps", OpKind::Heap, 10000},
    {"profile", OpKind::Calloc, 1000},
    {"profile", OpKind::Free, 2000, true},
    {"idle", OpKind::Idle, 8},
    {"limit", OpKind::Limit, 500},
    {"leak", OpKind::Malloc, 20000, false, 16, 8192},
    {"leak", OpKind::Realloc, 10000},
    {"leak", OpKind::Renew, 20},
};

TEST_P(EachScenario, ClaimsRulesInARunOfTheUsualLength)
{
    const Options options = options_of(GetParam().name, {"--threads", "4", "--ops", "100000"});
    const Plan plan = plan_of(GetParam(), options, 1);
    EXPECT_FALSE(plan.claims.empty());
    for (const Claim &claim : plan.claims) EXPECT_LE(claim.ops_min, 200'000u) << claim.rule;
}

// A run that has no case of its own claim fails, whatever the malloc does.
TEST_P(EachScenario, DrawsWhatItClaimsWhateverTheSeed)
{
    const auto drawn_for = [](const std::string &rule, const Op &op) {
        if (rule == rule::kReallocContent) return op.kind == OpKind::Realloc;
        if (rule == rule::kCallocZero) return op.kind == OpKind::Calloc;
        return rule != rule::kAlignment || op.kind == OpKind::AlignedAlloc || op.kind == OpKind::PosixMemalign ||
               op.kind == OpKind::Memalign;
    };
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        const Options options = options_of(GetParam().name, {"--threads", "2", "--ops", "20000"});
        Plan plan = plan_of(GetParam(), options, seed);
        const std::vector<Op> ops = execute_plan(plan, 20000, 8, "seed " + std::to_string(seed));
        for (const Claim &claim : plan.claims)
            EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [&](const Op &op) { return drawn_for(claim.rule, op); }))
                << claim.rule << ", seed " << seed;
    }
}

TEST_P(EachScenario, DrawsWhatItsPurposeNames)
{
    std::vector<Op> ops;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const Options options = options_of(GetParam().name, {"--threads", "4", "--ops", "100000", "--strict"});
        Plan plan = plan_of(GetParam(), options, seed);
        const std::vector<Op> done = execute_plan(plan, 100000, 8, "seed " + std::to_string(seed));
        ops.insert(ops.end(), done.begin(), done.end());
    }
    std::size_t rows = 0;
    for (const Drawn &row : kDrawn) {
        if (std::string(row.scenario) != GetParam().name) continue;
        ++rows;
        std::size_t count = 0;
        for (const Op &op : ops) {
            const std::size_t size_bytes = op_size(op) * (op.kind == OpKind::Calloc && op.arg > 0 ? op.arg : 1U);
            count += op.kind == row.kind && (op.link != 0 || !row.linked) && size_bytes >= row.min_bytes &&
                     size_bytes <= row.max_bytes;
        }
        EXPECT_GE(count, row.at_least) << "kind " << static_cast<int>(row.kind) << ", linked " << row.linked
                                       << ", sizes from " << row.min_bytes << " to " << row.max_bytes;
    }
    EXPECT_GT(rows, 0u) << "name in kDrawn what " << GetParam().name << " must draw";
}

INSTANTIATE_TEST_SUITE_P(Each, EachScenario, testing::ValuesIn(scenarios().begin(), scenarios().end()),
                         [](const auto &tested) {
                             std::string name = tested.param.name;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// The sizes that the aligned scenario is about. Chance could miss them.
TEST(AlignedScenario, AsksForEveryAlignmentWithItsOwnSizeAndBesideIt)
{
    const Options options = options_of("aligned", {"--threads", "4", "--ops", "400000", "--strict"});
    bool equal_seen[22] = {}, below_seen[22] = {}, above_seen[22] = {};
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Plan plan = plan_of(*scenario_find("aligned"), options, seed);
        for (std::uint32_t seat = 0; seat < 4; ++seat)
            for (const Op &op : draw(plan, seat, 100000)) {
                if (!op_allocates(op.kind) || op.kind == OpKind::Realloc) continue;
                // aligned_alloc rounds up to it anyway.
                equal_seen[op.arg] |= op.kind != OpKind::AlignedAlloc && op_size(op) == op_align(op);
                below_seen[op.arg] |= op_size(op) + 1 == op_align(op);
                above_seen[op.arg] |= op_size(op) == op_align(op) + 1;
            }
    }
    for (int log2 = 3; log2 <= 21; ++log2)
        EXPECT_TRUE(equal_seen[log2] && below_seen[log2] && above_seen[log2]) << "alignment 2^" << log2;
}

TEST(AlignedScenario, OnlyStrictRunsAskForWhatMimallocMisaligns)
{
    const Options options = options_of("aligned", {"--threads", "1", "--ops", "400000", "--no-strict"});
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Plan plan = plan_of(*scenario_find("aligned"), options, seed);
        for (const Op &op : draw(plan, 0, 100000)) {
            if (!op_allocates(op.kind) || op.kind == OpKind::Realloc || op_align(op) < 256) continue;
            const std::size_t times = op_size(op) % op_align(op) == 0 ? op_size(op) / op_align(op) : 0;
            ASSERT_TRUE(times == 0 || (times & (times - 1)) != 0) << op_size(op) << " at " << op_align(op);
        }
    }
}

// Each mode by itself never jams, also with uneven numbers of threads and the smallest rings.
TEST(RemoteFreeScenario, NoModeJams)
{
    const std::uint64_t seeds = kSanitized ? 1 : 3;
    for (const char *mode : {"queue", "ring", "all-to-all", "owner-exit", "free-only", "all"})
        for (const char *producers : {"1", "2", "5"})
            for (const char *consumers : {"1", "3"})
                for (const char *slots : {"2", "4", "64"})
                    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
                        const Options options =
                            options_of("remote-free", {"--mode", mode, "--producers", producers, "--consumers",
                                                       consumers, "--queue-slots", slots, "--ops", "50000"});
                        Plan plan = plan_of(*scenario_find("remote-free"), options, seed);
                        execute_plan(plan, 50000, 5000, std::string(mode) + " " + producers + " to " + consumers);
                    }
}

// A free-only thread never allocates: jemalloc 5.0.1 failed there.
TEST(RemoteFreeScenario, FreeOnlyConsumersNeverAllocate)
{
    const Options options = options_of("remote-free", {"--mode", "free-only", "--threads", "4", "--ops", "50000"});
    Plan plan = plan_of(*scenario_find("remote-free"), options, 1);
    std::size_t renewals = 0;
    for (const Op &op : draw(plan, 3, 20000)) {
        ASSERT_FALSE(op_allocates(op.kind));
        renewals += op.kind == OpKind::Renew;
    }
    EXPECT_GT(renewals, 10u);
}

// Late frees: blocks of owner-exit are freed after several successors of their owner have come.
TEST(RemoteFreeScenario, OwnerExitOwnersOnlyAllocateAndEnd)
{
    const Options options = options_of("remote-free", {"--mode", "owner-exit", "--threads", "4", "--ops", "50000"});
    Plan plan = plan_of(*scenario_find("remote-free"), options, 1);
    std::size_t renewals = 0;
    for (const Op &op : draw(plan, 0, 20000)) {
        ASSERT_TRUE(op.kind == OpKind::Renew || op_allocates(op.kind));
        renewals += op.kind == OpKind::Renew;
    }
    EXPECT_GT(renewals, 50u);
}

TEST(Draws, BordersAreOftenOneByteBesideAPowerOfTwo)
{
    Rng rng(3, 0);
    std::size_t below = 0, at = 0, above = 0;
    for (int i = 0; i < 10000; ++i) {
        const std::size_t size_bytes = draw_border(rng, 16, 4096);
        ASSERT_TRUE(size_bytes >= 16 && size_bytes <= 4096);
        below += ((size_bytes + 1) & size_bytes) == 0;
        at += (size_bytes & (size_bytes - 1)) == 0;
        above += ((size_bytes - 1) & (size_bytes - 2)) == 0;
    }
    EXPECT_TRUE(below > 500 && at > 500 && above > 500) << below << " " << at << " " << above;
}

TEST(Draws, SwitchesAreNeverAllOff)
{
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        Rng rng(seed, 0);
        const std::uint32_t switches = draw_switches(rng, 3);
        ASSERT_TRUE(switches > 0 && switches < 8);
    }
}

TEST(Draws, ChannelLinksCountUpOnEachSlotAndWrap)
{
    const Channel channel{10, 2};
    std::uint16_t last[4] = {};
    for (std::uint64_t k = 0; k < 300'000; ++k) {
        const std::uint32_t index = channel.slot(k) - 10;
        ASSERT_EQ(index, k % 4);
        ASSERT_EQ(channel.send_link(k), link_next(last[index]));
        ASSERT_EQ(channel.receive_link(k), link_next(channel.send_link(k)));
        last[index] = channel.receive_link(k);
    }
}

} // namespace
} // namespace stress
