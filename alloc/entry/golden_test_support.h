/* golden_test_support.h: records what the heap does in a program that repeats to the byte: each call to the system, each
 * address that it hands out, and its figures at the end of each phase. golden_test.cc compares that with golden.txt.
 *
 * What would differ from run to run is taken out of the system: this file's mmap, munmap, mprotect, mremap and madvise
 * stand before libc's and place every mapping in an arena of fixed addresses, from its top down; its clock stands
 * still; and threads run one at a time. */
#pragma once

#include "heap/heap_test_support.h"

#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

namespace test::golden {

// Runs a program in a child, whose heap has not started.
void record(const char *program, const std::function<void()> &body);

// Where pages are touched that depend on addresses of the program, which differ from run to run.
void leave_out_resident();

// From now on each nth of those calls fails with ENOMEM; 0: none.
void fail_each(unsigned nth);

// Moves the heap's clock.
void pass_ms(uint64_t ms);

// Some address of the arena that is or was mapped.
const char *some_address(uint64_t number);

// Notes a value, or where in the arena an address lies.
void note(uint64_t value);
void note(const void *address);
template <class T> T *noted(T *address)
{
    note(static_cast<const void *>(address));
    return address;
}

// Ends a phase: expects the figures that golden.txt has for it.
void phase(const char *name);

// Numbers that are the same in every run and with every library.
class Numbers {
  public:
    explicit Numbers(uint64_t seed) : engine_(seed) {}
    size_t below(size_t limit) { return engine_() % limit; }
    size_t between(size_t low, size_t high) { return low + below(high - low + 1); }
    // As many of each power of two as of the next: small sizes are as frequent as in programs.
    size_t size(size_t low_log2, size_t high_log2)
    {
        size_t power = size_t{1} << between(low_log2, high_log2 - 1);
        return power + below(power) + 1;
    }
    bool one_in(size_t n) { return below(n) == 0; }

  private:
    std::mt19937_64 engine_;
};

// Slots for blocks, and what a program does with them.
class Slots {
  public:
    Slots(size_t count, uint64_t seed) : numbers(seed), blocks_(count) {}

    void fill(const std::function<size_t()> &size)
    {
        for (void *&block : blocks_)
            if (block == nullptr) block = made(size());
    }
    // Replaces random blocks.
    void churn(size_t times, const std::function<size_t()> &size)
    {
        for (size_t i = 0; i < times; i++) {
            void *&block = blocks_[numbers.below(blocks_.size())];
            hak_free(block);
            block = made(size());
        }
    }
    void resize(size_t times, const std::function<size_t()> &size)
    {
        for (size_t i = 0; i < times; i++) {
            void *&block = blocks_[numbers.below(blocks_.size())];
            if (void *changed = noted(hak_realloc(block, size()))) block = changed;
        }
    }
    // Frees all but one in `kept`; 0: all.
    void thin(size_t kept)
    {
        for (void *&block : blocks_)
            if (kept == 0 || !numbers.one_in(kept)) hak_free(std::exchange(block, nullptr));
    }
    void *&operator[](size_t index) { return blocks_[index]; }
    size_t size() const { return blocks_.size(); }

    Numbers numbers;

  private:
    static void *made(size_t size)
    {
        auto *block = noted(static_cast<char *>(hak_malloc(size)));
        if (block != nullptr) block[0] = block[size - 1] = 1;
        return block;
    }
    std::vector<void *> blocks_;
};

// A thread that does one thing after the other while its caller waits.
class Worker {
  public:
    Worker() : thread_([this] { serve(); }) {}
    ~Worker()
    {
        run(nullptr);
        thread_.join();
    }
    void run(std::function<void()> body)
    {
        std::unique_lock lock(mutex_);
        body_ = std::move(body);
        has_work_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !has_work_; });
    }

  private:
    void serve()
    {
        std::unique_lock lock(mutex_);
        for (bool ended = false; !ended;) {
            changed_.wait(lock, [this] { return has_work_; });
            ended = !body_;
            if (!ended) body_();
            has_work_ = false;
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> body_;
    bool has_work_ = false;
    std::thread thread_; // the last: it uses the others
};

} // namespace test::golden
