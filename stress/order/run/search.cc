#include "order/run/search.h"

#include <algorithm>

namespace stress::order {
namespace {

constexpr std::size_t kStatesMax = 16 << 20; // about 800 MB; more are entered again

unsigned another_store(std::mt19937_64 &random, unsigned count)
{
    return random() % 4 != 0 ? 0 : static_cast<unsigned>(random() % count);
}

} // namespace

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

// A state with more left has all the runs of one with less, and so has one in which another thread runs, if it can afford
// to switch.
bool Search::is_known(std::uint64_t digest, unsigned running)
{
    if (!prunes_ || depth_ < path_.size()) return false; // the latter: on the way to what is new
    const bool is_bounded = left_.preemptions != kUnbounded;
    const unsigned threads = is_bounded ? kThreadsMax : 1, left = is_bounded ? left_.preemptions : 0;
    const unsigned stale = left_.stale == kUnbounded ? 0 : left_.stale;
    const unsigned most_stale = left_.stale == kUnbounded ? 0 : bounds().stale;
    const auto key = [&](unsigned thread, unsigned stale_left) {
        return (digest * 31 + thread + 1) * 0x9E3779B97F4A7C15ULL + stale_left;
    };
    const unsigned self = is_bounded && running < threads ? running : 0;
    for (unsigned more = stale; more <= most_stale; ++more) {
        for (unsigned thread = 0; thread < threads; ++thread) {
            const auto found = known_.find(key(thread, more));
            if (found != known_.end() && found->second >= left + (thread == self ? 0 : 1)) return true;
        }
    }
    if (known_.size() < kStatesMax) known_[key(self, stale)] = left;
    return false;
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
    return another_store(random_, count);
}

unsigned Pct::decide_thread(const unsigned *candidates, unsigned count, bool is_free)
{
    const bool is_change = std::find(changes_.begin(), changes_.end(), point_++) != changes_.end();
    if (is_change && !is_free) priority_[candidates[0]] = --lowest_;
    const auto higher = [&](unsigned a, unsigned b) { return priority_[a] < priority_[b]; };
    return static_cast<unsigned>(std::max_element(candidates, candidates + count, higher) - candidates);
}

Pos::Pos(Bounds bounds, std::uint64_t seed) : Chooser(bounds), random_(seed)
{
    begin();
    for (Pending &each : pending_) each.priority = random_();
}

unsigned Pos::decide(Choice, unsigned count)
{
    return another_store(random_, count);
}

void Pos::is_about_to(unsigned thread, std::uintptr_t key, bool is_write)
{
    pending_[thread] = {random_(), key, is_write};
}

unsigned Pos::decide_thread(const unsigned *candidates, unsigned count, bool)
{
    unsigned chosen = 0;
    for (unsigned i = 1; i < count; ++i)
        if (pending_[candidates[i]].priority > pending_[candidates[chosen]].priority) chosen = i;
    const Pending &next = pending_[candidates[chosen]];
    for (unsigned i = 0; i < count; ++i) {
        Pending &other = pending_[candidates[i]];
        if (i != chosen && other.key == next.key && (other.is_write || next.is_write)) other.priority = random_();
    }
    return chosen;
}

Surw::Surw(Bounds bounds, std::uint64_t seed, const StepCounts &counts) : Chooser(bounds), random_(seed)
{
    begin();
    std::vector<std::uintptr_t> words;
    for (const auto &[word, of_thread] : counts)
        if (std::count(of_thread.begin(), of_thread.end(), 0U) < static_cast<long>(kThreadsMax) - 1)
            words.push_back(word);
    if (words.empty()) return;
    std::sort(words.begin(), words.end());
    word_ = words[random_() % words.size()];
    left_of_ = counts.at(word_);
    intend();
}

void Surw::intend()
{
    std::uint64_t all = 0;
    for (const std::uint32_t left : left_of_) all += left;
    if (all == 0) return;
    std::uint64_t at = random_() % all;
    for (intended_ = 0; at >= left_of_[intended_]; ++intended_) at -= left_of_[intended_];
}

unsigned Surw::decide(Choice, unsigned count)
{
    return another_store(random_, count);
}

unsigned Surw::decide_thread(const unsigned *candidates, unsigned count, bool)
{
    std::vector<unsigned> able;
    for (unsigned i = 0; i < count; ++i)
        if (about_[candidates[i]] != word_ || candidates[i] == intended_) able.push_back(i);
    // The intended thread waits or has ended: the count of its steps was that of another run.
    const auto chosen = static_cast<unsigned>(able.empty() ? random_() % count : able[random_() % able.size()]);
    const unsigned thread = candidates[chosen];
    if (about_[thread] != word_) return chosen;
    if (left_of_[thread] > 0) --left_of_[thread];
    intend();
    return chosen;
}

unsigned Replay::decide(Choice, unsigned count)
{
    const unsigned choice = depth_ < given_.size() ? given_[depth_++] : 0;
    return choice < count ? choice : 0;
}

} // namespace stress::order
