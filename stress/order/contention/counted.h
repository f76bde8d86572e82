// A run of the subject in which nothing is chosen: threads take turns, memory is sequentially consistent, and what threads
// cost each other is counted. The same seed makes the same run.
//
// The schedule: round after round, each thread that can continue makes 1 to 16 accesses, a number that the seed draws. So all threads
// progress alike, as on as many cores. Time stands still.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <unordered_map>
#include <vector>

#include "order/contention/directory.h"
#include "order/run/machine.h"

namespace stress::order {

// Of all threads, while they counted.
struct Contention {
    std::uint64_t operations = 0, accesses = 0;
    Traffic malloc, program; // lines that code of the malloc moved; those that the program did, by its use of blocks
    std::uint64_t rmws = 0; // read-modify-writes: compare-exchanges that failed and the calls of mutexes, too
    std::uint64_t failed_cas = 0; // compare-exchanges that met another value, and mutexes that were taken
    std::uint64_t waits = 0; // for mutexes and futexes, and yields and sleeps
};

class Counted final : public Machine {
  public:
    Counted(Threads &threads, unsigned count, std::uint64_t seed) : Machine(threads, {}), random_(seed), seats_(count)
    {}

    // Runs body(seat, generation) in each seat, `generations` times, each time in a new thread. Empty, or what failed.
    std::string run(unsigned generations, const std::function<void(unsigned, unsigned)> &body);

    // --- what the body calls ---
    unsigned self() const { return running_; }
    // From now on what the running thread does counts, or not.
    void count(bool counts) { seats_[running_].counts = counts; }
    void operation() { total_.operations += seats_[running_].counts; }
    // The program reads or writes a block.
    void use(void *block, std::size_t bytes, bool is_write) { touch(block, bytes, is_write, 0); }
    // The program waits for another thread of its own. A round in which no thread does anything else is a deadlock.
    void idle();

    const Contention &total() const { return total_; }
    // By places in the code: which one took lines that which other one had written.
    using Places = std::map<std::pair<std::uintptr_t, std::uintptr_t>, Traffic>;
    const Places &places() const { return places_; }

    Seen load(const volatile void *address, unsigned bytes, Order order, std::uintptr_t place) override;
    void store(volatile void *address, unsigned bytes, Value value, Order order, std::uintptr_t place) override;
    Seen update(volatile void *address, unsigned bytes, Memory::Update kind, Value operand, Order order,
                std::uintptr_t place) override;
    Seen compare_exchange(volatile void *address, unsigned bytes, Value expected, Value desired, bool is_weak,
                          Order success, Order failure, std::uintptr_t place) override;
    void fence(Order, std::uintptr_t) override {}
    void plain(const volatile void *address, std::size_t bytes, bool is_write, std::uintptr_t place) override
    {
        touch(address, bytes, is_write, place);
    }
    void declare(const volatile void *, std::size_t, bool, std::uintptr_t) override {}
    void forget(const volatile void *address, std::size_t bytes) override { directory_.forget(address, bytes); }
    void lock(const void *lock, bool is_recursive) override;
    bool try_lock(const void *lock, bool is_recursive) override;
    void unlock(const void *lock) override;
    void wait(const void *key) override;
    void wake(const void *key, unsigned count) override;
    void yield() override;
    void turn(const void *) override {}
    void learn(std::uint64_t) override {}
    [[noreturn]] void fail(std::string text) override;

  private:
    struct Seat {
        unsigned generation = 0;
        bool has_ended = false, counts = false;
        const void *waits_for = nullptr;
    };
    struct Held {
        unsigned owner = kMain, depth = 0;
    };
    static void enter(unsigned seat);
    static void end(unsigned seat);
    void touch(const volatile void *address, std::size_t bytes, bool is_write, std::uintptr_t place);
    void rmw(bool has_failed);
    void hand_back();

    std::mt19937_64 random_;
    std::vector<Seat> seats_;
    const std::function<void(unsigned, unsigned)> *body_ = nullptr;
    Directory directory_;
    Contention total_;
    Places places_;
    std::unordered_map<const void *, Held> held_;
    unsigned left_ = 0; // accesses until the end of the turn
    bool has_moved_ = false; // in this round some thread did more than idle
    std::string failure_;
};

} // namespace stress::order
