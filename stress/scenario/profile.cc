// The heap profile against the truth: between laps, when no thread is in the subject, the sums of its samples must lie
// within four standard errors of what the seats have allocated in all, and of what is live.
//
// A sample of a block that is chosen by the byte, one in `mean`, has a variance of at most mean times its size; for small
// blocks that is exact. So the standard error of a sum of bytes is at most the root of mean times bytes.
//
// Finds samples that are lost or stay when their block is freed by another thread, by its heir, or in a burst, wrong
// weights, and blocks that are chosen too often or too seldom.
#include <fmt/core.h>

#include <cmath>

#include "engine/subject/extras.h"
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr double kMeanBytes = 8192, kErrors = 4;
constexpr double kOwnBytes = 128 * 1024; // what libc allocates for threads, and what the samples begin late with

struct Profiled {
    LiveMix mix;

    // Only calls whose size the profile knows: it counts an aligned block with its class's size, and a realloc in place
    // not at all.
    bool next(Op &op)
    {
        if (mix.rng.one_in(5000)) {
            op = op_make(OpKind::Renew, 0);
            return true;
        }
        op = mix.draw();
        if (op.kind == OpKind::Realloc || op.kind == OpKind::ReallocArray) op = op_make(OpKind::Check, op.slot);
        if (op_has_align(op.kind)) op = op_make(OpKind::Malloc, op.slot, op_size(op), 0, op.link);
        return true;
    }
};

// Empty: it is near enough.
std::string compare(const char *what, double estimate, double truth)
{
    const double slack = kErrors * std::sqrt(kMeanBytes * truth) + kOwnBytes;
    if (std::abs(estimate - truth) <= slack) return "";
    return fmt::format(
        "the profile has {:.0f} bytes {}, and there are {:.0f}; four standard errors and libc's own are {:.0f}",
        estimate, what, truth, slack);
}

} // namespace

Plan profile_plan(const Setup &setup)
{
    Plan plan = plan_of_seats(setup, LiveMix::slots_per_seat(setup),
                              [&](std::uint32_t seat, std::uint32_t) { return Profiled{LiveMix(setup, seat)}; });
    if (setup.options.check) plan.claims = {rule::kProfile};
    if (!subject_profile_start(static_cast<std::size_t>(kMeanBytes))) {
        plan.skip = "this malloc has no heap profile (hak_profile_start), or not in this build";
        return plan;
    }
    if (!setup.options.check) return plan;
    ProfileSums before;
    subject_profile_read(before);
    plan.judge_profile = [before](std::uint64_t allocated, std::uint64_t freed) -> std::string {
        ProfileSums now;
        if (const char *fault = subject_profile_read(now); fault != nullptr)
            return fmt::format("the profile cannot be read: {}", fault);
        const std::string fault =
            compare("allocated", now.allocated_bytes - before.allocated_bytes, static_cast<double>(allocated));
        return !fault.empty()
                   ? fault
                   : compare("in use", now.live_bytes - before.live_bytes, static_cast<double>(allocated - freed));
    };
    return plan;
}

} // namespace stress
