#include "order/run/machine.h"

#include <cstdlib>

namespace stress::order {

Machine *Machine::now_ = nullptr;

Machine::Result Machine::run(unsigned count, const std::function<void(unsigned)> &body, Chooser &chooser)
{
    memory_.emplace(chooser, rules_);
    races_.clear();
    chooser_ = &chooser;
    body_ = &body;
    result_ = {};
    count_ = count;
    for (unsigned i = 0; i < count; ++i) {
        has_ended_[i] = false;
        is_fresh_[i] = true;
        threads_->begin(i, enter);
    }
    running_ = kMain;
    now_ = this;
    point();
    now_ = nullptr;
    return result_;
}

void Machine::enter(unsigned thread)
{
    Machine &self = *now_;
    (*self.body_)(thread);
    self.has_ended_[thread] = true;
    self.point();
    std::abort(); // nobody continues a thread that has ended
}

void Machine::point()
{
    unsigned candidates[kThreadsMax], count = 0;
    const bool has_run = running_ != kMain, can_continue = has_run && !has_ended_[running_];
    if (can_continue && is_fresh_[running_]) { // it was chosen to make its first step
        is_fresh_[running_] = false;
        return;
    }
    if (can_continue) candidates[count++] = running_;
    for (unsigned i = 0; i < count_; ++i)
        if (i != running_ && !has_ended_[i]) candidates[count++] = i;
    // A thread that ends without a step leaves the state that another one has asked about. The end is one more state.
    if (has_run && (count == 0 || !is_fresh_[running_]) &&
        chooser_->is_known(memory_->digest() + (count == 0), running_)) {
        result_.is_pruned = true;
        leave();
    }
    if (count == 0) leave();
    const unsigned to = candidates[count == 1 ? 0 : chooser_->choose(Choice::thread, count, !can_continue)];
    if (to != running_) hand_over(to);
}

void Machine::hand_over(unsigned to)
{
    running_ = to;
    threads_->go(to);
}

void Machine::leave()
{
    hand_over(kMain);
    std::abort(); // nobody continues a thread of a run that is over
}

// `clock`: with what the access itself acquired. A plain write that the acquired store follows is no race.
void Machine::judge(const volatile void *address, std::size_t bytes, PlainOrAtomic kind, Event event)
{
    result_.race = races_.touch(address, bytes, kind, event, memory_->clock(running_), 0);
    if (result_.race) leave();
}

void Machine::plain(const volatile void *address, std::size_t bytes, bool is_write)
{
    judge(address, bytes, {is_write, false}, memory_->upcoming(running_));
    if (is_write) memory_->forget(address, bytes);
    memory_->plain(running_, address);
}

Seen Machine::load(const volatile void *address, unsigned bytes, Order order)
{
    point();
    const Event event = memory_->upcoming(running_);
    const Seen seen = memory_->load(running_, address, bytes, order);
    judge(address, bytes, {false, true}, event);
    return seen;
}

void Machine::store(volatile void *address, unsigned bytes, Value value, Order order)
{
    point();
    const Event event = memory_->upcoming(running_);
    memory_->store(running_, address, bytes, value, order);
    judge(address, bytes, {true, true}, event);
}

Seen Machine::update(volatile void *address, unsigned bytes, Memory::Update kind, Value operand, Order order)
{
    point();
    const Event event = memory_->upcoming(running_);
    const Seen seen = memory_->update(running_, address, bytes, kind, operand, order);
    judge(address, bytes, {true, true}, event);
    return seen;
}

Seen Machine::compare_exchange(volatile void *address, unsigned bytes, Value expected, Value desired, bool is_weak,
                               Order success, Order failure)
{
    point();
    const Event event = memory_->upcoming(running_);
    const Seen seen = memory_->compare_exchange(running_, address, bytes, expected, desired, is_weak, success, failure);
    judge(address, bytes, {seen.wrote, true}, event); // a write only if it succeeded
    return seen;
}

void Machine::fence(Order order)
{
    point();
    memory_->fence(running_, order);
}

} // namespace stress::order
