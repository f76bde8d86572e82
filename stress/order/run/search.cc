#include "order/run/search.h"

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

unsigned Search::decide(Choice, unsigned count)
{
    if (depth_ == path_.size()) path_.push_back({count, 0});
    return path_[depth_++].choice;
}

bool Search::is_known(std::uint64_t digest, unsigned running)
{
    if (depth_ < path_.size()) return false; // on the way to what is new
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

unsigned Replay::decide(Choice, unsigned count)
{
    const unsigned choice = depth_ < given_.size() ? given_[depth_++] : 0;
    return choice < count ? choice : 0;
}

} // namespace stress::order
