#include "explore/sweep.h"

#include <chrono>
#include <cstdio>

namespace stress {
namespace {

constexpr std::uint64_t kRunsBetweenLooks = 64;  // at the clock

enum class Pass { Whole, Grown, Ended };

Pass pass(Runner &runner, const Program &program, Shares &shares, unsigned bound, double deadline, Sweep &result)
{
    Search search(bound);
    result.schedules = 0;
    result.points = 0;
    do {
        const Outcome &outcome = runner.run(program, search, shares);
        ++result.runs;
        ++result.schedules;
        result.points += outcome.points;
        const bool more = search.next();
        if (outcome.rule != nullptr || search.diverged()) {
            result.failure = outcome;
            if (outcome.rule != nullptr) return Pass::Ended;
            result.failure.rule = "repeat";
            std::snprintf(result.failure.detail, sizeof result.failure.detail,
                          "the run came to other choices than the one before it: it depends on more than its schedule");
            return Pass::Ended;
        }
        if (shares.has_grown()) return Pass::Grown;
        if (!more) return Pass::Whole;
    } while (deadline == 0 || result.runs % kRunsBetweenLooks != 0 || sweep_clock() <= deadline);
    return Pass::Ended;
}

}  // namespace

double sweep_clock()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool sweep(Runner &runner, const Program &program, Shares &shares, unsigned bound, double deadline, Sweep &result)
{
    for (;;) {
        const Pass done = pass(runner, program, shares, bound, deadline, result);
        if (done != Pass::Grown) return done == Pass::Whole;
        shares.learn();
    }
}

}  // namespace stress
