// The memory model: which values an atomic access may see, by C++20 and C11 without out-of-thin-air values.
//
// RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing sequential consistency in C/C++11, PLDI 2017), whose seq_cst C++20
// adopted (P0668R5), with C++20's release sequences (P0982R1). Operational, as CDSChecker (Norris and Demsky, OOPSLA 2013) and C11Tester
// (Luo and Demsky, ASPLOS 2021) are: threads take turns, so that an event never depends on a later one (no thin air:
// sequenced-before and reads-from have no cycle). Each open decision is a choice (choice.h):
//
// - Each location keeps its stores in modification order. A load reads any of them that is not hidden: none before the
//   last one that an event which happens before the load has read or written (coherence).
// - A store goes anywhere behind those. Not before a read-modify-write and the store that it reads: nothing comes between
//   these two.
// - seq_cst accesses and fences: no choice that closes a cycle (serial.h).
//
// Exact: litmus/axioms.h enumerates the same sets from the axioms. Bounds cut choices off, so they lose outcomes and add
// none.
//
// A location is the bytes that atomic accesses use. C and C++ do not define atomic accesses of several sizes to the same
// bytes. Here such bytes become one location, with one modification order, in which stores go only to the end.
//
// The process's memory holds the last value in modification order, for accesses that the model does not see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "order/model/choice.h"
#include "order/model/clock.h"
#include "order/model/serial.h"

namespace stress::order {

using Value = unsigned __int128; // what fits in an atomic object, in its low bytes

// The numbers of C's memory_order.
enum class Order : std::uint8_t { relaxed, consume, acquire, release, acq_rel, seq_cst };

constexpr bool acquires(Order order)
{
    return order != Order::relaxed && order != Order::release;
}
constexpr bool releases(Order order)
{
    return order >= Order::release;
}

struct Rules {
    bool is_weak = true; // false: loads read the last store and stores go to the end: sequentially consistent
    // C11 and C17 have stores of the releasing thread in a release sequence, too; C++20 (P0982R1) has not. As RC11 has
    // it: whatever lies between.
    bool own_stores_release = false;
};

// What an access saw, for reports.
struct Seen {
    Value value = 0;
    Event from; // the store that it read
    unsigned newer = 0; // stores behind that one in modification order
    bool wrote = false;
    unsigned before = 0; // stores behind the written one in modification order
};

class Memory {
  public:
    Memory(Choices &choices, Rules rules) : choices_(&choices), rules_(rules) {}

    // A new run: thread 0 runs, nothing has happened.
    void clear();
    // What the parent has done so far happens before what the child does; likewise for what a thread did and who joins it.
    void begin_thread(unsigned parent, unsigned child);
    void join_thread(unsigned joiner, unsigned ended);

    Seen load(unsigned thread, const volatile void *address, unsigned bytes, Order order);
    Seen store(unsigned thread, volatile void *address, unsigned bytes, Value value, Order order);

    enum class Update : std::uint8_t { exchange, add, sub, conj, disj, exclusive, nand };
    static Value updated(Update kind, Value old, Value operand);
    Seen update(unsigned thread, volatile void *address, unsigned bytes, Update kind, Value operand, Order order);
    // `wrote` of the result: whether it succeeded.
    Seen compare_exchange(unsigned thread, volatile void *address, unsigned bytes, Value expected, Value desired,
                          bool is_weak, Order success, Order failure);
    void fence(unsigned thread, Order order);
    // A plain access, which judges nothing here: races.h.
    void plain(unsigned thread, const volatile void *address);

    // For locks, and what else orders threads beside memory: a clock that threads join and leave.
    void acquire(unsigned thread, const Clock &from);
    void release(unsigned thread, Clock &to);

    // The thread has learnt this by other means.
    void learn(unsigned thread, std::uint64_t what)
    {
        threads_[thread].clock.last[thread]++;
        threads_[thread].digest = threads_[thread].digest * 31 + what;
    }

    // Plain writes, and memory that comes from the system or goes back to it, end what the bytes were as locations. A plain
    // write without a race happens after all accesses so far, and before all later ones.
    void forget(const volatile void *address, std::size_t bytes);

    const Clock &clock(unsigned thread) const { return threads_[thread].clock; }
    // The thread's next event. A plain access is a part of it.
    Event upcoming(unsigned thread) const { return {thread, threads_[thread].clock.last[thread] + 1}; }

    // Two runs with the same digest, of deterministic threads, can continue only in the same ways. It covers what each
    // thread did, what it read from where, and the modification orders: an execution graph.
    std::uint64_t digest() const { return threads_digest() ^ locations_digest_; }
    unsigned mixed_sizes() const { return mixed_sizes_; }

  private:
    struct Store {
        Value value = 0;
        Event event;
        unsigned rank = 0; // place in modification order
        bool is_update = false; // follows the store that it reads
        std::uint32_t bytes_written = ~0U; // a bit a byte
        Clock releases; // what an acquire that reads it acquires
    };
    struct Access {
        Event event;
        unsigned store = 0; // that it read, or wrote
        bool is_write = false;
        bool is_serial = false;
        unsigned node = 0;
        std::vector<unsigned> fences; // nodes of seq_cst fences that happen before it
        Clock clock; // only while there are seq_cst operations
    };
    struct Location {
        std::uintptr_t start = 0;
        unsigned bytes = 0;
        bool is_mixed = false;
        std::vector<Store> stores; // [0]: what was there before
        std::vector<unsigned> line; // modification order: indices of stores
        std::vector<Access> accesses;
        std::vector<Clock> own_releases; // by thread: its release stores here; for Rules::own_stores_release
        std::uint64_t digest = 0;
    };
    struct Thread {
        Clock clock;
        Clock pending; // what relaxed loads read: an acquire fence acquires it
        Clock fenced; // at the last release fence: what relaxed stores release
        std::uintptr_t last_location = 0; // of its last event
        Clock last_clock, elsewhere; // of its last event, and of its last at another location than that
        std::uint64_t digest = 0;
    };
    // An access that is about to happen; the rest depends on which store it reads.
    struct Plan {
        unsigned thread;
        Location *location;
        std::uint32_t mask; // bytes of the location that it uses
        unsigned shift; // of its value in the location's, in bits
        unsigned bytes;
        Clock before;
    };
    struct Option {
        unsigned rank; // of the store that it reads, or follows
        bool is_write;
    };

    Plan plan(unsigned thread, const volatile void *address, unsigned bytes);
    Location &locate(std::uintptr_t start, unsigned bytes);
    static std::unique_ptr<Location> fresh(std::uintptr_t start, unsigned bytes);
    static unsigned floor(const Location &location, const Clock &clock);
    const Store &source(const Plan &plan, unsigned rank) const;
    Value extract(const Plan &plan, unsigned rank) const;
    // The clock of the access once it has read.
    Clock after(const Plan &plan, unsigned rank, Order order) const;
    std::vector<Serial::Edge> edges(const Plan &plan, const Clock &clock, Option option, Order order) const;
    std::vector<Option> places(const Plan &access, Order order, bool reads) const;
    bool allows(const Plan &plan, Option option, Order order, bool reads) const;
    void demand(const Access &from, unsigned node, std::vector<Serial::Edge> &edges) const;
    void demand_of_fence(const Location &location, const Clock &clock, std::vector<Serial::Edge> &edges) const;
    void finish(unsigned thread, std::uintptr_t location);
    static bool is_followed(const Location &location, unsigned rank);

    Seen do_read(const Plan &plan, unsigned rank, Order order);
    void do_write(const Plan &plan, unsigned rank, Value value, Order order, const Store *read, Seen &seen);
    void record(const Plan &plan, Option option, Order order, unsigned store, const std::vector<Serial::Edge> &edges);
    void note(unsigned thread, std::uint64_t what, const Seen &seen);
    void digest_location(Location &location);
    std::uint64_t threads_digest() const;
    unsigned choose(Choice kind, std::size_t count);

    Choices *choices_;
    Rules rules_;
    Thread threads_[kThreadsMax];
    Serial serial_;
    std::unordered_map<std::uintptr_t, std::vector<std::unique_ptr<Location>>> granules_; // by address / 16
    std::uint64_t locations_digest_ = 0;
    unsigned mixed_sizes_ = 0;
};

} // namespace stress::order
