#include "engine/team/heap_op.h"

#include <sched.h>

#include <memory>

#include "engine/base/mapped.h"
#include "engine/base/rng.h"
#include "engine/subject/extras.h"
#include "engine/subject/subject.h"

namespace stress {
namespace {

constexpr std::size_t kHeapCount = 3, kHeapRecords = 48; // records of a seat in each heap
constexpr std::uint64_t kVisitSteps = 12; // of a visit
constexpr std::uint32_t kHeapSeatOffset =
    3 * kOpThreadsMax; // separates the generations of these blocks from the seat's

struct Record {
    enum State : std::uint32_t { Empty, Full, Claimed };
    std::atomic<std::uint32_t> state{Empty};
    Block block{};

    // acquire: the block's record and content are visible. Pairs with the release in let_go.
    bool claim(std::uint32_t from)
    {
        return state.compare_exchange_strong(from, Claimed, std::memory_order_acquire, std::memory_order_relaxed);
    }
    void let_go() { state.store(block.start != nullptr ? Full : Empty, std::memory_order_release); }
};

struct SharedHeap {
    hak_heap *heap = nullptr; // changes only while it is closed
    std::atomic<std::uint32_t> visitors{0};
    std::atomic<bool> closed{false};
    Mapped<Record> records; // kHeapRecords of each seat
};

struct Heaps {
    SharedHeap heaps[kHeapCount];
};
std::unique_ptr<Heaps> table;

// A visitor counts itself, then looks whether the heap is closed; who closes it does so, then looks for visitors. All
// four are sequentially consistent, so one of the two sees the other.
bool enter(SharedHeap &heap)
{
    heap.visitors.fetch_add(1);
    if (!heap.closed.load() && heap.heap != nullptr) return true;
    heap.visitors.fetch_sub(1);
    return false;
}

bool close_alone(SharedHeap &heap, const std::atomic<bool> &stop)
{
    if (heap.closed.exchange(true)) return false;
    while (heap.visitors.load() != 0) {
        if (stop.load(std::memory_order_relaxed)) {
            heap.closed.store(false);
            return false;
        }
        sched_yield();
    }
    return true;
}

struct Visit {
    const HeapCalls &calls;
    Seat &seat;
    FailureLog &failures;
    InterpShared &shared;
    Rng rng;

    Witness witness() const { return seat.interp.witness(); }
    std::size_t usable(void *start) const
    {
        return seat.interp.support().usable_size ? subject::call_usable_size(start) : Oracle::kUsableUnknown;
    }
    std::uint64_t generation() { return generation_make(seat.index + kHeapSeatOffset, seat.process.heap_blocks++); }
    std::size_t size()
    {
        const std::size_t most = rng.one_in(500) ? std::size_t{3} << 20 : rng.one_in(20) ? 100'000 : 3000;
        return rng.between(1, most);
    }
    void count(const Block &block, bool is_given)
    {
        bump(is_given ? seat.counters.blocks_allocated : seat.counters.blocks_freed, 1);
        bump(is_given ? seat.counters.bytes_allocated : seat.counters.bytes_freed, block.size_bytes);
    }
    bool refused(const char *call, std::size_t size_bytes, std::uint32_t mark)
    {
        if (shared.scarce_since(mark)) return true;
        failures.add(rule::kHeap, witness(), "%s of %zu bytes returned NULL", call, size_bytes);
        return false;
    }

    bool allocate(hak_heap *heap, Block &block)
    {
        const bool is_calloc = rng.one_in(4);
        const std::size_t size_bytes = size();
        const std::uint32_t mark = shared.scarce_mark();
        void *start = subject::launder(is_calloc ? calls.calloc(heap, 1, size_bytes) : calls.malloc(heap, size_bytes));
        if (start == nullptr) return refused(is_calloc ? "hak_heap_calloc" : "hak_heap_malloc", size_bytes, mark);
        const Block fresh{start, size_bytes, generation(), 0};
        if (!shared.oracle.allocated(fresh, usable(start), is_calloc, witness())) return false;
        count(block = fresh, true);
        return true;
    }

    bool release(Block &block)
    {
        if (!shared.oracle.before_free(block, witness())) return false;
        subject::call_free(block.start);
        count(block, false);
        block = {};
        return true;
    }

    bool reallocate(hak_heap *heap, Block &block)
    {
        const std::size_t size_bytes = size();
        const std::uint32_t mark = shared.scarce_mark();
        if (!shared.oracle.before_realloc(block, witness())) return false;
        void *start = subject::launder(rng.one_in(2) ? subject::call_realloc(block.start, size_bytes)
                                                     : calls.realloc(heap, block.start, size_bytes));
        if (start == nullptr)
            return shared.oracle.realloc_refused(block, witness()) && refused("hak_heap_realloc", size_bytes, mark);
        const Block fresh{start, size_bytes, generation(), 0};
        if (!shared.oracle.after_realloc(block, fresh, usable(start), witness())) return false;
        count(block, false);
        count(block = fresh, true);
        return true;
    }

    bool step(SharedHeap &shared_heap)
    {
        Record &own = shared_heap.records[seat.index * kHeapRecords + rng.below(kHeapRecords)];
        if (own.claim(Record::Empty)) {
            const bool sound = allocate(shared_heap.heap, own.block);
            own.let_go();
            return sound;
        }
        Record &any = rng.one_in(2) ? own : shared_heap.records[rng.below(shared_heap.records.size())];
        if (!any.claim(Record::Full)) return true;
        const std::uint64_t what = rng.below(4);
        const bool sound = what == 0   ? shared.oracle.still_holds(any.block, witness())
                           : what == 1 ? reallocate(shared_heap.heap, any.block)
                                       : release(any.block);
        any.let_go();
        return sound;
    }

    // No other thread is in. All blocks must be whole; none of them is freed by itself.
    bool give_back(SharedHeap &shared_heap, bool keeps_heap)
    {
        bool sound = true;
        for (Record &record : shared_heap.records) {
            if (record.block.start == nullptr) continue;
            sound = sound && shared.oracle.before_free(record.block, witness());
            count(record.block, false);
            record.block = {};
            record.let_go();
        }
        if (shared_heap.heap != nullptr) bump(seat.process.counts.heaps, 1);
        if (sound && keeps_heap && shared_heap.heap != nullptr) {
            calls.free_all(shared_heap.heap);
        } else if (sound) {
            calls.destroy(shared_heap.heap);
            shared_heap.heap = nullptr;
        }
        return sound;
    }

    bool renew(SharedHeap &shared_heap)
    {
        if (!close_alone(shared_heap, shared.stop)) return true;
        bool sound = give_back(shared_heap, rng.one_in(2));
        const std::uint32_t mark = shared.scarce_mark();
        if (sound && shared_heap.heap == nullptr) {
            shared_heap.heap = calls.make();
            sound = shared_heap.heap != nullptr || refused("hak_heap_new", 0, mark);
        }
        shared_heap.closed.store(false);
        return sound;
    }
};

} // namespace

void heap_op_begin(std::size_t seat_count)
{
    if (seat_count == 0 || heap_calls() == nullptr) return;
    table = std::make_unique<Heaps>();
    for (SharedHeap &heap : table->heaps) heap.records = Mapped<Record>(seat_count * kHeapRecords);
}

void heap_op_end()
{
    table.reset();
}

bool heap_apply(std::uint64_t draws, Seat &seat, FailureLog &failures, InterpShared &shared)
{
    if (table == nullptr) return true; // the plan has already said so
    const SchedHold hold;
    Visit visit{*heap_calls(), seat, failures, shared, Rng(draws, seat.index)};
    SharedHeap &heap = table->heaps[visit.rng.below(kHeapCount)];
    if (visit.rng.one_in(40)) return visit.renew(heap);
    if (!enter(heap)) return heap.closed.load() || visit.renew(heap);
    bool sound = true;
    for (std::uint64_t i = 0; i < kVisitSteps && sound; ++i) sound = visit.step(heap);
    heap.visitors.fetch_sub(1);
    return sound;
}

void heap_op_rest(Seat &seat, FailureLog &failures, InterpShared &shared)
{
    if (table == nullptr || failures.any()) return;
    for (SharedHeap &heap : table->heaps)
        Visit{.calls = *heap_calls(), .seat = seat, .failures = failures, .shared = shared, .rng = Rng(0, 0)}.give_back(
            heap, false);
}

} // namespace stress
