#include "engine/team/destructors.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <new>

namespace stress {
namespace {

constexpr std::size_t kWorkSlots = 16;
constexpr std::size_t kKept = 8;     // slots filled during the thread's life
constexpr std::size_t kKeys = 3;
constexpr std::size_t kKeysMade = 40;  // beyond 32 keys, libc allocates the room for values from the subject
constexpr std::size_t kKeyUsed[kKeys] = {0, 16, 39};
// ThreadSanitizer ends its part of a thread in the last round; instrumented code cannot run after that.
constexpr int kRounds = kSanitized ? PTHREAD_DESTRUCTOR_ITERATIONS - 2 : PTHREAD_DESTRUCTOR_ITERATIONS;
constexpr std::uint64_t kOpsOfOne = 1024;  // number of generations reserved for the ops of one thread
constexpr std::uint32_t kWorkSeatOffset = kOpThreadsMax;  // separates the generations of last work from their seat's

// A block that a dead thread left for another.
struct Cell {
    enum State : std::uint32_t { Empty, Busy, Full };
    std::atomic<std::uint32_t> state{Empty};
    Block block{};
};
constexpr std::size_t kCells = 16;
Cell cells[kCells];

std::atomic<std::uint64_t> rounds_done{0};

// A thread's work in its last moments, with an interpreter and slots of its own.
struct LastWork {
    LastWork(Seat &seat, InterpShared &run, const FailureLog &log, std::uint64_t salt)
        : failures(log), slots(kWorkSlots), shared{run.oracle, slots, run.stop},
          interp(shared, counters, seat.interp.support(), seat.index + kWorkSeatOffset, seat.interp.checks()),
          rng(seat.index, salt)
    {
        shared.scarce = run.scarce;
        counters.ops.store(read(seat.counters.threads_started) * kOpsOfOne, std::memory_order_relaxed);
    }

    const FailureLog &failures;  // after the first failure the heap is left as it is
    Counters counters;
    Slots slots;
    InterpShared shared;
    Interp interp;
    Rng rng;
    int rounds_left[kKeys] = {kRounds, kRounds, kRounds};
    int calls_left = 1 + kKeys * kRounds;

    bool apply(OpKind kind, std::size_t slot, std::size_t size_bytes = 0, std::uint8_t arg = 0)
    {
        return interp.apply(op_make(kind, static_cast<std::uint32_t>(slot), size_bytes, arg)) != Applied::Failed;
    }
    std::size_t draw_size() { return rng.one_in(8) ? rng.between(1, 200'000) : rng.between(1, 2000); }

    void trade();
    void round();
    void finish();
};

// Leaves a block in a cell, or takes the block that is there.
void LastWork::trade()
{
    Cell &cell = cells[rng.below(kCells)];
    Block &mine = slots.blocks[kWorkSlots - 1];
    std::uint32_t seen = cell.state.load(std::memory_order_relaxed);
    if (seen == Cell::Busy) return;
    // acquire: the block, and its content from the thread that left it. Pairs with the releases below.
    if (!cell.state.compare_exchange_strong(seen, Cell::Busy, std::memory_order_acquire)) return;
    if (seen == Cell::Full && mine.start == nullptr) {
        mine = cell.block;
        cell.state.store(Cell::Empty, std::memory_order_release);
    } else if (seen == Cell::Empty && mine.start != nullptr) {
        cell.block = mine;
        mine = {};
        cell.state.store(Cell::Full, std::memory_order_release);
    } else {
        cell.state.store(seen, std::memory_order_release);
    }
}

// One destructor's work.
void LastWork::round()
{
    if (failures.any()) return;
    bool sound = apply(OpKind::Free, rng.below(kKept));
    const std::size_t fresh = kKept + rng.below(kWorkSlots - kKept - 1);
    sound = sound && apply(OpKind::Calloc, fresh, draw_size(), 1);
    sound = sound && apply(OpKind::Realloc, rng.below(kWorkSlots - 1), draw_size());
    sound = sound && apply(OpKind::Free, fresh);
    sound = sound && apply(OpKind::AlignedAlloc, fresh, 3 * 64 * rng.between(1, 10), 6);
    sound = sound && apply(OpKind::Malloc, kWorkSlots - 1, draw_size());
    if (!sound) return;
    trade();
    apply(OpKind::Free, kWorkSlots - 1);
}

void LastWork::finish()
{
    for (std::size_t slot = 0; slot < kWorkSlots; ++slot)
        if (!interp.sweep(static_cast<std::uint32_t>(slot))) break;
}

// The thread's last destructor unmaps them. Not allocated by harness_map, since this may run while memory is refused.
void unmap(LastWork *work)
{
    work->~LastWork();
    munmap(work, sizeof(LastWork));
}

void one_call(LastWork *work)
{
    work->round();
    rounds_done.fetch_add(1, std::memory_order_relaxed);
    if (--work->calls_left > 0) return;
    if (!work->failures.any()) work->finish();
    unmap(work);
}

struct Keys {
    pthread_key_t keys[kKeysMade];
    bool made = true;

    Keys();
};
const Keys &keys();

template <std::size_t which> void at_key(void *value)
{
    auto *work = static_cast<LastWork *>(value);
    // A value that is set again is destroyed again in the next round; libc gives up after the last round.
    if (--work->rounds_left[which] > 0) pthread_setspecific(keys().keys[kKeyUsed[which]], work);
    one_call(work);
}

Keys::Keys()
{
    for (std::size_t i = 0; i < kKeysMade; ++i) {
        void (*destructor)(void *) = nullptr;
        if (i == kKeyUsed[0]) destructor = at_key<0>;
        if (i == kKeyUsed[1]) destructor = at_key<1>;
        if (i == kKeyUsed[2]) destructor = at_key<2>;
        made = made && pthread_key_create(&keys[i], destructor) == 0;
    }
}

const Keys &keys()
{
    static const Keys all;
    return all;
}

// Destructors of C++ objects run before those of the keys.
struct Object {
    LastWork *work = nullptr;
    ~Object()
    {
        if (work != nullptr) one_call(work);
    }
};
thread_local Object object;

LastWork *make(Seat &seat, InterpShared &run, const FailureLog &failures, std::uint64_t salt)
{
    void *start = mmap(nullptr, sizeof(LastWork), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    return new (start) LastWork(seat, run, failures, salt);
}

}  // namespace

bool destructors_arm(Seat &seat, InterpShared &run, const FailureLog &failures, std::uint64_t salt)
{
    if (!keys().made || run.scarce_since(run.scarce_mark())) return false;
    if (object.work != nullptr) return true;
    LastWork *work = make(seat, run, failures, salt);
    if (work == nullptr) return false;
    for (std::size_t slot = 0; slot < kKept; ++slot)
        if (!work->apply(OpKind::Malloc, slot, work->draw_size())) break;
    object.work = work;
    for (std::size_t which = 0; which < kKeys; ++which) {
        // If there is no memory for the value, the destructor is not called.
        if (salt == 0 || pthread_setspecific(keys().keys[kKeyUsed[which]], work) != 0) work->calls_left -= kRounds;
    }
    return true;
}

void destructors_sweep(Seat &seat, InterpShared &run, const FailureLog &failures)
{
    LastWork *work = nullptr;
    for (Cell &cell : cells) {
        if (cell.state.load(std::memory_order_acquire) != Cell::Full) continue;
        if (work == nullptr) work = make(seat, run, failures, 0);
        if (work == nullptr) return;
        work->slots.blocks[0] = cell.block;
        cell.state.store(Cell::Empty, std::memory_order_relaxed);
        if (!failures.any()) work->interp.sweep(0);
    }
    if (work != nullptr) unmap(work);
}

std::uint64_t destructors_rounds()
{
    return rounds_done.load(std::memory_order_relaxed);
}

}  // namespace stress
