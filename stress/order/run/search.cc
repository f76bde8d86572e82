#include "order/run/search.h"

#include <algorithm>

namespace stress::order {

void Chooser::begin()
{
    left_ = bounds_;
    chosen_.clear();
}

unsigned Chooser::choose(Choice kind, unsigned count, bool is_free)
{
    unsigned &left = kind == Choice::thread ? left_.preemptions : left_.stale;
    unsigned choice = 0;
    if (is_free || left > 0) {
        choice = decide(kind, count);
        if (choice != 0 && !is_free && left != kUnbounded) --left;
    }
    chosen_.push_back(choice);
    return choice;
}

unsigned Chooser::choose_thread(const unsigned *candidates, unsigned count, bool is_free)
{
    unsigned choice = 0;
    if (is_free || left_.preemptions > 0) {
        choice = decide_thread(candidates, count, is_free);
        if (choice != 0 && !is_free && left_.preemptions != kUnbounded) --left_.preemptions;
    }
    chosen_.push_back(choice);
    return choice;
}

unsigned Search::decide(Choice, unsigned count)
{
    if (depth_ == path_.size()) path_.push_back({count, 0});
    if (path_[depth_].count != count) {
        has_diverged_ = true;
        return 0;
    }
    return path_[depth_++].choice;
}

bool Search::is_known(std::uint64_t digest, unsigned running)
{
    if (!prunes_ || depth_ < path_.size()) return false; // the latter: on the way to what is new
    if (left_.preemptions != kUnbounded) digest = digest * 31 + (left_.preemptions * 64ULL + running + 1);
    if (left_.stale != kUnbounded) digest = digest * 31 + left_.stale;
    return !known_.insert(digest).second;
}

bool Search::next()
{
    // A run that ended early, because all that follows is known, leaves no choices behind its end.
    while (!path_.empty() && path_.back().choice + 1 == path_.back().count) path_.pop_back();
    if (path_.empty()) return false;
    path_.back().choice++;
    depth_ = 0;
    begin();
    return true;
}

unsigned Uniform::decide(Choice kind, unsigned count)
{
    if (random_() % (kind == Choice::thread ? 8 : 4) != 0) return 0;
    return static_cast<unsigned>(random_() % count);
}

Pct::Pct(Bounds bounds, std::uint64_t seed, unsigned depth, std::uint64_t points) : Chooser(bounds), random_(seed)
{
    begin();
    lowest_ = depth;
    for (unsigned i = 1; i < depth; ++i) changes_.push_back(random_() % points);
    for (std::uint64_t &priority : priority_) priority = depth + 1 + random_() % (1ULL << 40);
}

unsigned Pct::decide(Choice, unsigned count)
{
    return random_() % 4 != 0 ? 0 : static_cast<unsigned>(random_() % count);
}

unsigned Pct::decide_thread(const unsigned *candidates, unsigned count, bool is_free)
{
    const bool is_change = std::find(changes_.begin(), changes_.end(), point_++) != changes_.end();
    if (is_change && !is_free) priority_[candidates[0]] = --lowest_;
    const auto higher = [&](unsigned a, unsigned b) { return priority_[a] < priority_[b]; };
    return static_cast<unsigned>(std::max_element(candidates, candidates + count, higher) - candidates);
}

unsigned Replay::decide(Choice, unsigned count)
{
    const unsigned choice = depth_ < given_.size() ? given_[depth_++] : 0;
    return choice < count ? choice : 0;
}

} // namespace stress::order
