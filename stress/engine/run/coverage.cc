#include "engine/run/coverage.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "engine/judge/failure.h"

namespace stress {
namespace {

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

std::vector<CountOf> rule_cases(const Testbed &testbed, const ProcessFigures &process, const std::vector<Claim> &claims)
{
    const auto of = [&](OpKind kind) { return judged(testbed, kind); };
    const std::uint64_t aligned = of(OpKind::AlignedAlloc) + of(OpKind::PosixMemalign) + of(OpKind::Memalign);
    const std::uint64_t moved = of(OpKind::Realloc) + of(OpKind::ReallocArray);
    const std::uint64_t given = of(OpKind::Malloc) + of(OpKind::Calloc) + aligned + moved;
    const std::uint64_t freed = of(OpKind::Free) + of(OpKind::FreeSized) + of(OpKind::FreeAlignedSized);
    std::vector<CountOf> cases = {{rule::kOverlap, given},
                                  {rule::kAlignment, aligned},
                                  {rule::kContent, freed + moved + of(OpKind::Check)},
                                  {rule::kReallocContent, moved},
                                  {rule::kCallocZero, of(OpKind::Calloc)},
                                  {rule::kErrnoKept, freed},
                                  {rule::kEnomem, testbed.sum(&Counters::refused)}};
    // Of some scenarios alone.
    for (const CountOf &one : {CountOf{rule::kHandover, testbed.sum(&Counters::handed_over)},
                               {rule::kFalseSharing, testbed.lines != nullptr ? given : 0},
                               {rule::kThread, of(OpKind::Renew)},
                               {rule::kCancellation, process.cancellations},
                               {rule::kFork, process.forks},
                               {rule::kSignal, process.signals},
                               {rule::kExhausted, process.os_failures + process.limits},
                               {rule::kLoading, process.plugins},
                               {rule::kHeap, process.heaps},
                               {rule::kMemoryReturn, process.idles},
                               {rule::kProfile, process.profiles}})
        if (one.count != 0 || std::any_of(claims.begin(), claims.end(),
                                          [&](const Claim &claim) { return std::strcmp(claim.rule, one.name) == 0; }))
            cases.push_back(one);
    return cases;
}

std::string claim_without_case(const std::vector<CountOf> &cases, const std::vector<Claim> &claims, std::uint64_t ops)
{
    std::string missing;
    for (const Claim &claim : claims) {
        const bool had_one = std::any_of(cases.begin(), cases.end(), [&](const CountOf &of) {
            return of.count != 0 && std::strcmp(of.name, claim.rule) == 0;
        });
        if (ops >= claim.ops_min && !had_one) missing += (missing.empty() ? "" : ", ") + std::string(claim.rule);
    }
    return missing.empty() ? "" : fmt::format("{} ops had no case of {}", ops, missing);
}

}  // namespace stress
