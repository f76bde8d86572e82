// A bounded queue from one thread to one other. It is the only ordering that the harness puts between two threads.
#pragma once

#include <atomic>
#include <cstddef>

#include "engine/base/mapped.h"

namespace stress {

// Law: pop returns the pushed items in order, each once. One thread pushes and closes, one thread pops. Either role may
// pass to a thread that is ordered after the first, as pthread_create orders a successor.
template <typename T> class SpscQueue {
  public:
    SpscQueue() = default;
    // slot_count is a power of two.
    explicit SpscQueue(std::size_t slot_count) : slots_(slot_count) {}
    SpscQueue(const SpscQueue &) = delete;
    SpscQueue &operator=(const SpscQueue &) = delete;

    // Gives a default-constructed queue its slots, before any thread uses it.
    void prepare(std::size_t slot_count) { slots_ = Mapped<T>(slot_count); }

    // False when the queue is full.
    bool push(const T &item)
    {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        if (tail - head_seen_ == slots_.size()) {
            // acquire: the slot is empty before it is written again. Pairs with the release in pop.
            head_seen_ = head_.load(std::memory_order_acquire);
            if (tail - head_seen_ == slots_.size()) return false;
        }
        slots_[tail & (slots_.size() - 1)] = item;
        // release: publishes the item and the content of its block. Pairs with the acquire in pop.
        tail_.store(tail + 1, std::memory_order_release);
        return true;
    }

    // False when the queue is empty.
    bool pop(T &item)
    {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        if (head == tail_seen_) {
            // acquire: the item is complete before it is read. Pairs with the release in push.
            tail_seen_ = tail_.load(std::memory_order_acquire);
            if (head == tail_seen_) return false;
        }
        item = slots_[head & (slots_.size() - 1)];
        // release: the slot has been read. Pairs with the acquire in push.
        head_.store(head + 1, std::memory_order_release);
        return true;
    }

    // The pusher promises that nothing follows. release: orders this after its last push. Pairs with drained().
    void close() { closed_.store(true, std::memory_order_release); }

    // For the popper: nothing is left and nothing will come.
    bool drained() const
    {
        return closed_.load(std::memory_order_acquire) &&
               head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
    }

  private:
    static constexpr std::size_t kLineBytes = 128; // two lines: the prefetcher fetches pairs

    alignas(kLineBytes) std::atomic<std::size_t> tail_{0};
    std::size_t head_seen_ = 0;
    std::atomic<bool> closed_{false};
    alignas(kLineBytes) std::atomic<std::size_t> head_{0};
    std::size_t tail_seen_ = 0;
    alignas(kLineBytes) Mapped<T> slots_;
};

} // namespace stress
