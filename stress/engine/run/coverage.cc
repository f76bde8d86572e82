#include "engine/run/coverage.h"

#include <fmt/core.h>

#include <cstring>

#include "engine/judge/failure.h"

namespace stress {
namespace {

// A shorter run may miss a kind of op by chance.
constexpr std::uint64_t kOpsToJudge = 5000;

std::uint64_t judged(const Testbed &testbed, OpKind kind)
{
    std::uint64_t count = 0;
    for (const Seat *seat : testbed.seats) count += read(seat->counters.judged[static_cast<std::size_t>(kind)]);
    return count;
}

}  // namespace

std::vector<CountOf> op_counts(const Testbed &testbed)
{
    static constexpr const char *names[] = {
#define X(name, text, arguments) text,
        STRESS_OP_KINDS(X)
#undef X
    };
    std::vector<CountOf> counts;
    for (std::size_t kind = 0; kind < kOpKindCount; ++kind)
        if (const std::uint64_t count = judged(testbed, static_cast<OpKind>(kind)); count != 0)
            counts.push_back({names[kind], count});
    return counts;
}

std::vector<CountOf> rule_cases(const Testbed &testbed)
{
    const auto of = [&](OpKind kind) { return judged(testbed, kind); };
    const std::uint64_t aligned = of(OpKind::AlignedAlloc) + of(OpKind::PosixMemalign) + of(OpKind::Memalign);
    const std::uint64_t moved = of(OpKind::Realloc) + of(OpKind::ReallocArray);
    const std::uint64_t given = of(OpKind::Malloc) + of(OpKind::Calloc) + aligned + moved;
    const std::uint64_t freed = of(OpKind::Free) + of(OpKind::FreeSized) + of(OpKind::FreeAlignedSized);
    return {{rule::kOverlap, given},
            {rule::kAlignment, aligned},
            {rule::kContent, freed + moved + of(OpKind::Check)},
            {rule::kReallocContent, moved},
            {rule::kCallocZero, of(OpKind::Calloc)},
            {rule::kErrnoKept, freed},
            {rule::kEnomem, testbed.sum(&Counters::refused)}};
}

std::string claim_without_case(const std::vector<CountOf> &cases, const std::vector<const char *> &claims,
                               std::uint64_t ops)
{
    if (ops < kOpsToJudge) return "";
    std::string missing;
    for (const char *claim : claims)
        for (const CountOf &rule : cases)
            if (rule.count == 0 && std::strcmp(rule.name, claim) == 0)
                missing += (missing.empty() ? "" : ", ") + std::string(claim);
    return missing.empty() ? "" : fmt::format("{} ops had no case of {}", ops, missing);
}

}  // namespace stress
