#include "order/run/search.h"

#include <algorithm>

namespace stress::order {
namespace {

constexpr std::size_t kStatesMax = 16 << 20; // about 1 GB; more are entered again
constexpr std::uintptr_t kKeyBytes = 16; // steps about the same granule conflict

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

unsigned Search::decide_at(unsigned count, bool is_preemption)
{
    if (depth_ == path_.size()) path_.push_back({count, 0, is_preemption, about_, {}, {}});
    if (path_[depth_].count != count) {
        has_diverged_ = true;
        return 0;
    }
    return path_[depth_++].choice;
}

unsigned Search::number_of(Event event)
{
    const std::uint64_t code = std::uint64_t{event.thread} << 32 | event.number;
    return numbers_.try_emplace(code, static_cast<unsigned>(numbers_.size())).first->second;
}

void Search::does(Event event, std::uintptr_t key, bool is_write, const Clock &before)
{
    if (!prunes_ || key == 0) return;
    auto &done = done_[key / kKeyBytes];
    if (depth_ >= path_.size()) { // else an earlier run has noted it
        Set &set = top();
        for (const Step &old : done) {
            if (old.event.thread == event.thread || before.has(old.event) || !(is_write || old.is_write)) continue;
            const unsigned number = number_of(old.event);
            if (set.size() <= number / 64) set.resize(number / 64 + 1);
            set[number / 64] |= std::uint64_t{1} << number % 64;
        }
    }
    done.push_back({event, is_write});
}

bool Search::conflicts(const Node &node)
{
    const unsigned number = number_of(node.event);
    return node.below.size() > number / 64 && (node.below[number / 64] >> number % 64 & 1) != 0;
}

void Search::add(Set &to, const Set &from)
{
    if (to.size() < from.size()) to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) to[i] |= from[i];
}

// All runs from here on were made.
void Search::close(const Node &node)
{
    add(path_.empty() ? root_ : path_.back().below, node.below);
    if (node.states.empty()) return;
    const auto [set, is_new] = set_numbers_.try_emplace(node.below, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(node.below);
    for (const std::uint64_t state : node.states) {
        known_[state].is_open = false;
        known_[state].steps = set->second;
    }
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
            if (found == known_.end() || found->second.left < left + (thread == self ? 0 : 1)) continue;
            const Known &known = found->second;
            const Set from = !known.is_open     ? sets_[known.steps]
                             : known.steps == 0 ? root_
                                                : path_[known.steps - 1].below;
            add(top(), from);
            return true;
        }
    }
    if (known_.size() >= kStatesMax) return false;
    const std::uint64_t state = key(self, stale);
    const auto [found, is_new] = known_.try_emplace(state);
    if (!is_new && found->second.is_open && found->second.steps != depth_) { // its node lists it already
        found->second.left = left;
        return false;
    }
    found->second = {left, true, static_cast<std::uint32_t>(depth_)};
    if (depth_ > 0) path_[depth_ - 1].states.push_back(state);
    return false;
}

bool Search::next()
{
    // A run that ended early, because all that follows is known, leaves no choices behind its end.
    while (!path_.empty()) {
        const Node &last = path_.back();
        const bool is_needed = !prunes_ || !last.is_preemption || last.choice > 0 || conflicts(last);
        if (is_needed && last.choice + 1 < last.count) break;
        const Node closed = std::move(path_.back());
        path_.pop_back();
        close(closed);
    }
    if (path_.empty()) return false;
    path_.back().choice++;
    depth_ = 0;
    done_.clear();
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

void Pos::is_about_to(Event event, std::uintptr_t key, bool is_write)
{
    pending_[event.thread] = {random_(), key, is_write};
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
