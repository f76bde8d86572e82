#include "order/contention/counted.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace stress::order {
namespace {

constexpr unsigned kTurnMax = 16; // accesses

Value value_at(const volatile void *address, unsigned bytes)
{
    Value value = 0;
    std::memcpy(&value, const_cast<const void *>(address), bytes);
    return value;
}

void put(volatile void *address, unsigned bytes, Value value)
{
    std::memcpy(const_cast<void *>(address), &value, bytes);
}

Counted *counted = nullptr;

} // namespace

std::string Counted::run(unsigned generations, const std::function<void(unsigned, unsigned)> &body)
{
    body_ = &body;
    now_ = counted = this;
    for (unsigned i = 0; i < seats_.size(); ++i) threads_->begin(i, enter, end);
    for (;;) {
        bool is_over = true;
        has_moved_ = false;
        for (unsigned i = 0; i < seats_.size() && failure_.empty(); ++i) {
            Seat &seat = seats_[i];
            if (seat.has_ended && seat.generation + 1 < generations) {
                seat = {seat.generation + 1, false, false, nullptr};
                threads_->begin(i, enter, end);
            }
            is_over &= seat.has_ended;
            if (seat.has_ended || seat.waits_for != nullptr) continue;
            left_ = 1 + static_cast<unsigned>(random_() % kTurnMax);
            running_ = i;
            is_inside_ = true;
            threads_->go(i);
            is_inside_ = false;
        }
        if (!failure_.empty() || is_over) break;
        if (!has_moved_) {
            failure_ = "deadlock: every thread waits for another one";
            break;
        }
    }
    now_ = nullptr;
    return failure_;
}

void Counted::enter(unsigned seat)
{
    (*counted->body_)(seat, counted->seats_[seat].generation);
}

void Counted::end(unsigned seat)
{
    counted->seats_[seat].has_ended = true;
    counted->hand_back();
    std::abort(); // nobody continues a thread that has ended
}

void Counted::idle()
{
    is_inside_ = false;
    threads_->go(kMain);
    is_inside_ = true;
}

void Counted::hand_back()
{
    has_moved_ = true;
    idle();
    has_moved_ = true;
}

void Counted::fail(std::string text)
{
    failure_ = std::move(text);
    hand_back();
    std::abort(); // nobody continues a run that failed
}

// The turn ends before the access, so that the access and what the caller makes of it are one step.
void Counted::touch(const volatile void *address, std::size_t bytes, bool is_write, std::uintptr_t place)
{
    if (bytes == 0) return;
    if (left_ == 0) hand_back();
    has_moved_ = true;
    --left_;
    const auto [cost, writer] = directory_.touch(running_, address, bytes, is_write, place);
    if (!seats_[running_].counts) return;
    total_.accesses++;
    if (cost.transfers() == 0) return;
    (place == 0 ? total_.program : total_.malloc).add(cost);
    if (place != 0) places_[{place, writer}].add(cost);
}

void Counted::rmw(bool has_failed)
{
    if (!seats_[running_].counts) return;
    total_.rmws++;
    total_.failed_cas += has_failed;
}

Seen Counted::load(const volatile void *address, unsigned bytes, Order, std::uintptr_t place)
{
    touch(address, bytes, false, place);
    return {value_at(address, bytes), {}, 0, false, 0};
}

void Counted::store(volatile void *address, unsigned bytes, Value value, Order, std::uintptr_t place)
{
    touch(address, bytes, true, place);
    put(address, bytes, value);
}

Seen Counted::update(volatile void *address, unsigned bytes, Memory::Update kind, Value operand, Order,
                     std::uintptr_t place)
{
    touch(address, bytes, true, place);
    rmw(false);
    const Value old = value_at(address, bytes);
    put(address, bytes, Memory::updated(kind, old, operand));
    return {old, {}, 0, true, 0};
}

// A processor takes the line to write it before it compares.
Seen Counted::compare_exchange(volatile void *address, unsigned bytes, Value expected, Value desired, bool, Order,
                               Order, std::uintptr_t place)
{
    touch(address, bytes, true, place);
    const Value old = value_at(address, bytes);
    rmw(old != expected);
    if (old == expected) put(address, bytes, desired);
    return {old, {}, 0, old == expected, 0};
}

// --- what orders threads besides memory --------------------------------------------------------------------

constexpr unsigned kLockBytes = 4; // the word of a mutex that its users write
constexpr std::uintptr_t kOfLibc = 1; // the place: no code of the malloc's own

bool Counted::try_lock(const void *address, bool is_recursive)
{
    touch(address, kLockBytes, true, kOfLibc);
    Held &held = held_[address];
    const bool is_refused =
        (held.owner == running_ && !is_recursive) || (held.owner != kMain && held.owner != running_);
    rmw(is_refused);
    if (is_refused) return false;
    held.owner = running_;
    held.depth++;
    return true;
}

void Counted::lock(const void *address, bool is_recursive)
{
    while (!try_lock(address, is_recursive)) {
        if (held_[address].owner == running_) fail("a thread takes a mutex that it holds");
        wait(address);
    }
}

void Counted::unlock(const void *address)
{
    touch(address, kLockBytes, true, kOfLibc);
    rmw(false);
    Held &held = held_[address];
    if (held.owner != running_) fail("a thread releases a mutex that it does not hold");
    if (--held.depth > 0) return;
    held.owner = kMain;
    wake(address, 1);
}

void Counted::wait(const void *key)
{
    total_.waits += seats_[running_].counts;
    seats_[running_].waits_for = key;
    hand_back();
}

void Counted::wake(const void *key, unsigned count)
{
    for (unsigned i = 0; i < seats_.size() && count > 0; ++i) {
        Seat &seat = seats_[(running_ + 1 + i) % seats_.size()];
        if (seat.waits_for != key) continue;
        seat.waits_for = nullptr;
        count--;
    }
}

void Counted::yield()
{
    total_.waits += seats_[running_].counts;
    hand_back();
}

} // namespace stress::order
