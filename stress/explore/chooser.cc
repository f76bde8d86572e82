#include "explore/chooser.h"

#include <bit>

namespace stress {
namespace {

unsigned nth_bit(unsigned mask, unsigned n)
{
    for (; n > 0; --n) mask &= mask - 1;
    return static_cast<unsigned>(std::countr_zero(mask));
}

bool has(unsigned mask, unsigned thread)
{
    return (mask >> thread & 1) != 0;
}

}  // namespace

unsigned Search::pick(unsigned count)
{
    if (depth_ == path_.size()) path_.push_back({0, static_cast<std::uint8_t>(count)});
    const Choice &choice = path_[depth_++];
    if (choice.count != count) diverged_ = true;
    return choice.chosen < count ? choice.chosen : 0;
}

unsigned Search::at_point(unsigned running, unsigned others, bool is_choice)
{
    if (!is_choice || others == 0 || preemptions_ == bound_) return running;
    const unsigned chosen = pick(1 + static_cast<unsigned>(std::popcount(others)));
    if (chosen == 0) return running;
    ++preemptions_;
    return nth_bit(others, chosen - 1);
}

unsigned Search::at_rest(unsigned candidates)
{
    const auto count = static_cast<unsigned>(std::popcount(candidates));
    return nth_bit(candidates, count == 1 ? 0 : pick(count));
}

bool Search::next()
{
    if (depth_ != path_.size()) diverged_ = true;
    while (!path_.empty() && path_.back().chosen + 1 == path_.back().count) path_.pop_back();
    depth_ = 0;
    preemptions_ = 0;
    if (path_.empty()) return false;
    ++path_.back().chosen;
    return true;
}

unsigned Replay::at_point(unsigned running, unsigned others, bool)
{
    if (at_ >= schedule_.size() || ++points_ < schedule_[at_].points) return running;
    ++at_;
    points_ = 0;
    if (at_ == schedule_.size()) return running;
    const unsigned next = schedule_[at_].thread;
    if (has(others, next)) return next;
    diverged_ = diverged_ || next != running;
    return running;
}

unsigned Replay::at_rest(unsigned candidates)
{
    // A thread that waits or ends before it has passed its points ends its stretch early. That is right for a stretch
    // to the thread's end; otherwise the schedule does not fit.
    if (begun_) {
        if (at_ < schedule_.size() && schedule_[at_].points != Stretch::kToItsEnd) diverged_ = true;
        ++at_;
    }
    begun_ = true;
    points_ = 0;
    if (at_ < schedule_.size()) {
        if (has(candidates, schedule_[at_].thread)) return schedule_[at_].thread;
        diverged_ = true;
    }
    return nth_bit(candidates, 0);
}

} // namespace stress
