#include "order/run/machine.h"

#include <cstdlib>
#include <cstring>

#include "order/run/pages.h"

namespace stress::order {
namespace {

// Points without a switch, at most: the thread may be waiting for another one, in a loop that does not say so.
constexpr unsigned kAloneMax = 2000;
// Accesses of private memory in a row, at most: the thread may wait for a word that no other thread has used so far.
constexpr unsigned kQuietMax = 100000;
// Of a longer copy or fill the first and the last half of this are judged: each byte costs as much as an access.
constexpr std::size_t kJudgedWholeMax = 16384;
// Points of a call in a child of fork while no other thread can run, at most.
constexpr unsigned kSoleMax = 10000;
// Accesses in a row of a thread that nobody can hear.
constexpr unsigned kSoleQuietMax = 10000000;

void before_write(const volatile void *address, std::size_t bytes)
{
    if (pages_now != nullptr) pages_now->before_write(address, bytes);
}

Value value_at(const volatile void *address, unsigned bytes)
{
    Value value = 0;
    std::memcpy(&value, const_cast<const void *>(address), bytes);
    return value;
}

void put(volatile void *address, unsigned bytes, Value value)
{
    before_write(address, bytes);
    std::memcpy(const_cast<void *>(address), &value, bytes);
}

} // namespace

Machine *Machine::now_ = nullptr;

Machine::Result Machine::run(unsigned count, const std::function<void(unsigned)> &body, Chooser &chooser)
{
    memory_.emplace(chooser, rules_);
    races_.clear();
    locks_.clear();
    clocks_.clear();
    steps_.clear();
    if (sharing_ != nullptr) sharing_->begin();
    chooser_ = &chooser;
    body_ = &body;
    result_ = {};
    count_ = count;
    alone_ = quiet_ = sole_ = 0;
    stops_ = 0;
    is_alone_ = has_forked_ = is_sole_ = false;
    for (unsigned i = 0; i < count; ++i) {
        has_ended_[i] = false;
        is_fresh_[i] = true;
        waits_for_[i] = nullptr;
        stack_[i] = Stacks::kNone;
        threads_->begin(i, enter, end);
    }
    running_ = kMain;
    now_ = this;
    choose_next(false);
    now_ = nullptr;
    result_.has_outgrown = sharing_ != nullptr && sharing_->has_grown();
    return result_;
}

void Machine::enter(unsigned thread)
{
    now_->is_inside_ = true;
    (*now_->body_)(thread);
}

void Machine::end(unsigned thread)
{
    Machine &self = *now_;
    self.has_ended_[thread] = true;
    self.wake(&self.has_ended_[thread], kThreadsMax);
    self.choose_next(false);
    std::abort(); // nobody continues a thread that has ended
}

void Machine::point(const volatile void *key, bool is_write)
{
    if (is_sole_) return;
    result_.points++;
    quiet_ = 0;
    const auto about = reinterpret_cast<std::uintptr_t>(key);
    const Event event = memory_->upcoming(running_);
    chooser_->is_about_to(event, about, is_write);
    pause();
    chooser_->does(event, about, is_write, memory_->clock(running_));
}

// Before a store that no other thread can notice, unless one of them forks. Steps like this are no sign of a thread that waits.
void Machine::stop(const volatile void *address)
{
    result_.points++;
    stops_++;
    const auto about = reinterpret_cast<std::uintptr_t>(address);
    const Event event = memory_->upcoming(running_);
    chooser_->is_about_to(event, about, true);
    if (is_fresh_[running_]) is_fresh_[running_] = false;
    else choose_next(true);
    chooser_->does(event, about, true, memory_->clock(running_));
}

void Machine::pause()
{
    if (is_fresh_[running_]) { // it was chosen to make its first step
        is_fresh_[running_] = false;
        return;
    }
    if (has_forked_) sole_ = can_another_run() ? 0 : sole_ + 1;
    if (sole_ > kSoleMax) fail("livelock: the child of a fork spins, and no other thread can run");
    if (result_.points - stops_ > points_max_) {
        result_.is_given_up = true;
        leave();
    }
    if (++alone_ > kAloneMax) return yield();
    choose_next(true);
}

bool Machine::can_another_run() const
{
    for (unsigned i = 0; i < count_ && !is_alone_; ++i)
        if (i != running_ && !has_ended_[i] && waits_for_[i] == nullptr) return true;
    return false;
}

void Machine::choose_next(bool can_continue)
{
    if (is_alone_ && can_continue) return;
    if (is_alone_) fail("deadlock: a handler of fork waits for a thread that the child has not");
    unsigned candidates[kThreadsMax], count = 0, live = 0;
    if (can_continue) candidates[count++] = running_;
    for (unsigned i = 0; i < count_; ++i) {
        if (has_ended_[i]) continue;
        live++;
        if ((can_continue && i == running_) || waits_for_[i] != nullptr) continue;
        candidates[count++] = i;
    }
    // A thread that ends without a step leaves the state that another one has asked about. The end is one more state.
    if (running_ != kMain && (live == 0 || !is_fresh_[running_]) &&
        chooser_->is_known(digest() + (live == 0), running_)) {
        result_.is_pruned = true;
        leave();
    }
    if (live == 0) leave();
    if (count == 0) fail("deadlock: every thread waits for another one");
    is_inside_ = false;
    const unsigned to = candidates[count == 1 ? 0 : chooser_->choose_thread(candidates, count, !can_continue)];
    is_inside_ = true;
    if (to != running_) hand_over(to);
}

std::uint64_t Machine::digest() const
{
    std::uint64_t digest = memory_->digest();
    for (unsigned i = 0; i < count_; ++i) digest = digest * 31 + reinterpret_cast<std::uintptr_t>(waits_for_[i]);
    return digest;
}

void Machine::hand_over(unsigned to)
{
    is_inside_ = false;
    running_ = to;
    alone_ = 0;
    threads_->go(to);
    is_inside_ = true;
}

void Machine::leave()
{
    hand_over(kMain);
    std::abort(); // nobody continues a thread of a run that is over
}

void Machine::fail(std::string text)
{
    result_.failure = std::move(text);
    leave();
}

// The clock is the one with what the access itself acquired. A plain write that the acquired store follows is no race.
bool Machine::is_shared(const volatile void *address, std::size_t bytes, bool is_write)
{
    return sharing_ == nullptr || sharing_->touch(address, bytes, is_write, running_);
}

bool Machine::is_private(const volatile void *address, unsigned bytes, bool is_write)
{
    if (is_sole_) {
        if (++quiet_ > kSoleQuietMax) fail("livelock: a thread spins, and no other thread can run");
        return true;
    }
    if (is_shared(address, bytes, is_write)) return false;
    if (stops_at_stores_ && is_write) stop(address);
    if (++quiet_ > kQuietMax) {
        quiet_ = 0;
        yield();
    }
    memory_->plain(running_, address);
    return true;
}

void Machine::judge(const volatile void *address, std::size_t bytes, PlainOrAtomic kind, Event event,
                    std::uintptr_t place)
{
    if (ignores_races_) return;
    const std::uint32_t stack = place == 0 || !keeps_steps_ ? Stacks::kNone : stacks_.push(stack_[running_], place);
    result_.race = races_.touch(address, bytes, kind, event, memory_->clock(running_), stack);
    if (result_.race) leave();
}

void Machine::keep(Step::Kind kind, const volatile void *address, unsigned bytes, Order order, const Seen &seen,
                   Value written, std::uintptr_t place)
{
    if (!keeps_steps_) return;
    const Event event = {running_, memory_->clock(running_).last[running_]};
    const std::uint32_t stack = place == 0 ? Stacks::kNone : stacks_.push(stack_[running_], place);
    steps_.push_back(
        {kind, running_, event, reinterpret_cast<std::uintptr_t>(address), bytes, order, seen, written, stack, {}});
}

void Machine::note(std::string text)
{
    if (!keeps_steps_) return;
    keep(Step::Kind::note, nullptr, 0, Order::relaxed, {}, 0, 0);
    steps_.back().text = std::move(text);
}

void Machine::plain(const volatile void *address, std::size_t bytes, bool is_write, std::uintptr_t place)
{
    if (bytes > kJudgedWholeMax) {
        const volatile char *start = static_cast<const volatile char *>(address), *end = start + bytes;
        if (is_write) {
            before_write(address, bytes);
            memory_->forget(address, bytes);
        }
        plain(start, kJudgedWholeMax / 2, is_write, place);
        return plain(end - kJudgedWholeMax / 2, kJudgedWholeMax / 2, is_write, place);
    }
    if (is_write) before_write(address, bytes);
    if (is_sole_) return;
    if (stops_at_stores_ && is_write) stop(address);
    if (is_shared(address, bytes, is_write)) {
        judge(address, bytes, {is_write, false}, memory_->upcoming(running_), place);
        if (is_write) memory_->forget(address, bytes);
    }
    memory_->plain(running_, address);
}

Seen Machine::load(const volatile void *address, unsigned bytes, Order order, std::uintptr_t place)
{
    if (is_private(address, bytes, false)) return {value_at(address, bytes), {}, 0, false, 0};
    point(address, false);
    const Event event = memory_->upcoming(running_);
    const Seen seen = memory_->load(running_, address, bytes, order);
    keep(Step::Kind::load, address, bytes, order, seen, 0, place);
    judge(address, bytes, {false, true}, event, place);
    return seen;
}

void Machine::store(volatile void *address, unsigned bytes, Value value, Order order, std::uintptr_t place)
{
    if (is_private(address, bytes, true)) return put(address, bytes, value);
    point(address, true);
    before_write(address, bytes);
    const Event event = memory_->upcoming(running_);
    const Seen seen = memory_->store(running_, address, bytes, value, order);
    keep(Step::Kind::store, address, bytes, order, seen, value, place);
    judge(address, bytes, {true, true}, event, place);
}

Seen Machine::update(volatile void *address, unsigned bytes, Memory::Update kind, Value operand, Order order,
                     std::uintptr_t place)
{
    if (is_private(address, bytes, true)) {
        const Value old = value_at(address, bytes);
        put(address, bytes, Memory::updated(kind, old, operand));
        return {old, {}, 0, true, 0};
    }
    point(address, true);
    before_write(address, bytes);
    const Event event = memory_->upcoming(running_);
    const Seen seen = memory_->update(running_, address, bytes, kind, operand, order);
    keep(Step::Kind::update, address, bytes, order, seen, Memory::updated(kind, seen.value, operand), place);
    judge(address, bytes, {true, true}, event, place);
    return seen;
}

Seen Machine::compare_exchange(volatile void *address, unsigned bytes, Value expected, Value desired, bool is_weak,
                               Order success, Order failure, std::uintptr_t place)
{
    if (is_private(address, bytes, true)) {
        const Value old = value_at(address, bytes);
        if (old == expected) put(address, bytes, desired);
        return {old, {}, 0, old == expected, 0};
    }
    point(address, true);
    before_write(address, bytes);
    const Event event = memory_->upcoming(running_);
    const Seen seen = memory_->compare_exchange(running_, address, bytes, expected, desired, is_weak, success, failure);
    keep(Step::Kind::compare, address, bytes, seen.wrote ? success : failure, seen, desired, place);
    judge(address, bytes, {seen.wrote, true}, event, place); // a write only if it succeeded
    return seen;
}

// A fence acts on its own thread's accesses: to switch before the next one instead is the same.
void Machine::fence(Order order, std::uintptr_t place)
{
    if (is_sole_) return;
    if (sharing_ == nullptr) point(nullptr, true);
    memory_->fence(running_, order);
    keep(Step::Kind::fence, nullptr, 0, order, {}, 0, place);
}

void Machine::forget(const volatile void *address, std::size_t bytes)
{
    memory_->forget(address, bytes);
    races_.forget(address, bytes);
}

} // namespace stress::order
