// Threads that come and go: every few dozen ops the thread of a seat ends and a fresh one continues with its slots. The
// thread returns, calls pthread_exit, is cancelled, hands over to a thread with the smallest stack, or allocates and
// frees in its destructors.
//
// Finds heaps of ended threads that nobody adopts, lost caches, blocks that are returned while others hold them, and
// faults of frees in destructors after the malloc has torn down its state of the thread (known failures 18 to 23).
//
// The scenarios in this file differ in the ways to end that they draw:
// - thread-churn: all five.
// - tls-destructors: destructors of C++ objects and, in strict runs, of keys, in all rounds (18, 20, 22). mimalloc
//   2.0.9 and tcmalloc 2.10 lose memory for each thread that allocates in a key's destructor.
// - cancellation: deferred cancellation, pending during ops that reach slow paths (39). malloc must not be a
//   cancellation point, and must not leave a lock held.
// - small-stack: the smallest stack that POSIX allows, which a malloc must not overflow (23).
#include <span>

#include "engine/base/build.h"
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

struct ThreadChurn {
    LiveMix mix;
    bool strict;
    std::span<const RenewHow> ways;
    std::uint64_t life_max; // maximum of ops between two ends
    std::uint64_t life_left = 20;

    bool next(Op &op)
    {
        if (life_left-- > 0) {
            op = mix.draw();
            return true;
        }
        life_left = mix.rng.between(1, life_max);
        const RenewHow how = ways[mix.rng.below(ways.size())];
        op = op_make(OpKind::Renew, 0, renew_size(mix.rng, how, strict), static_cast<std::uint8_t>(how));
        return true;
    }
};

Plan ends_plan(const Setup &setup, std::span<const RenewHow> ways, std::uint64_t life_max,
               const char *claim = rule::kThread)
{
    Plan plan = plan_of_seats(setup, LiveMix::slots_per_seat(setup), [&](std::uint32_t seat, std::uint32_t) {
        return ThreadChurn{
            .mix = LiveMix(setup, seat),
            .strict = setup.options.strict,
            .ways = ways,
            .life_max = life_max,
        };
    });
    if (setup.options.check) plan.claims = {claim};
    return plan;
}

} // namespace

Plan thread_churn_plan(const Setup &setup)
{
    static constexpr RenewHow ways[] = {RenewHow::Return, RenewHow::Exit, RenewHow::Cancel, RenewHow::SmallStack,
                                        RenewHow::Destructors};
    return ends_plan(setup, ways, 80);
}

Plan tls_destructors_plan(const Setup &setup)
{
    static constexpr RenewHow ways[] = {RenewHow::Destructors};
    return ends_plan(setup, ways, 60);
}

Plan cancellation_plan(const Setup &setup)
{
    static constexpr RenewHow ways[] = {RenewHow::Cancel};
    return ends_plan(setup, ways, 60, rule::kCancellation);
}

Plan small_stack_plan(const Setup &setup)
{
    static constexpr RenewHow ways[] = {RenewHow::SmallStack};
    Plan plan = ends_plan(setup, ways, 60);
    if (kSanitized) plan.skip = "a sanitizer's frames need more than the smallest stack";
    return plan;
}

} // namespace stress
