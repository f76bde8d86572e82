// What orders the threads of a run beside memory: waits, locks, ends, and the fork.
#include "order/run/machine.h"

namespace stress::order {

void Machine::wait(const void *key)
{
    waits_for_[running_] = key;
    choose_next(false);
}

void Machine::wake(const void *key, unsigned count)
{
    for (unsigned i = 0; i < count_ && count > 0; ++i) {
        if (waits_for_[i] != key) continue;
        waits_for_[i] = nullptr;
        count--;
    }
}

void Machine::yield()
{
    if (is_alone_) return;
    alone_ = 0;
    const unsigned self = running_;
    unsigned candidates[kThreadsMax], count = 0;
    for (unsigned i = 1; i < count_; ++i) {
        const unsigned other = (self + i) % count_;
        if (!has_ended_[other] && waits_for_[other] == nullptr) candidates[count++] = other;
    }
    if (count == 0) return;
    is_inside_ = false;
    const unsigned to = candidates[count == 1 ? 0 : chooser_->choose_thread(candidates, count, true)];
    is_inside_ = true;
    hand_over(to);
}

bool Machine::try_lock(const void *address, bool is_recursive)
{
    point(address, true);
    Lock &lock = locks_[address];
    if ((lock.owner == running_ && !is_recursive) || (lock.owner != kMain && lock.owner != running_)) {
        learn(2);
        return false;
    }
    lock.owner = running_;
    lock.depth++;
    memory_->acquire(running_, lock.clock);
    keep(Step::Kind::lock, address, 0, Order::acquire, {}, 0, 0);
    return true;
}

void Machine::lock(const void *address, bool is_recursive)
{
    while (!try_lock(address, is_recursive)) {
        if (locks_[address].owner == running_) fail("a thread takes a mutex that it holds");
        wait(address);
    }
}

void Machine::unlock(const void *address)
{
    point(address, true);
    Lock &lock = locks_[address];
    if (lock.owner != running_) fail("a thread releases a mutex that it does not hold");
    memory_->release(running_, lock.clock);
    keep(Step::Kind::unlock, address, 0, Order::release, {}, 0, 0);
    if (--lock.depth > 0) return;
    lock.owner = kMain;
    wake(address, kThreadsMax);
}

void Machine::make_lock(const void *address)
{
    point(address, true);
    Lock &lock = locks_[address];
    if (lock.owner != kMain && lock.owner != running_ && !has_ended_[lock.owner])
        fail("a thread initialises a mutex that another thread holds");
    lock.owner = kMain;
    lock.depth = 0;
    wake(address, kThreadsMax);
}

void Machine::join(unsigned thread)
{
    while (!has_ended_[thread]) wait(&has_ended_[thread]);
    memory_->join_thread(running_, thread);
}

// The system's copy has what every thread has stored so far.
void Machine::fork(const std::function<void()> &handlers)
{
    for (unsigned i = 0; i < count_; ++i) {
        if (i == running_) continue;
        if (!is_fresh_[i] && !has_ended_[i]) {
            has_ended_[i] = true;
            waits_for_[i] = nullptr;
            wake(&has_ended_[i], kThreadsMax);
        }
        memory_->join_thread(running_, i);
    }
    for (auto &[address, lock] : locks_) {
        if (!lock.is_free_at_fork || lock.owner == kMain || lock.owner == running_) continue;
        lock.owner = kMain;
        lock.depth = 0;
    }
    is_alone_ = has_forked_ = true;
    handlers();
    is_alone_ = false;
    for (unsigned i = 0; i < count_; ++i)
        if (!has_ended_[i] && i != running_) memory_->join_thread(i, running_);
}

void Machine::release(const void *key)
{
    memory_->release(running_, clocks_[key]);
}

void Machine::acquire(const void *key)
{
    memory_->acquire(running_, clocks_[key]);
}

} // namespace stress::order
