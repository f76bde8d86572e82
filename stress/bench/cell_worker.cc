#include "bench/cell_worker.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace bench {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kRingMost = 1024, kForkPairs = 64;

// Not from the malloc that is measured.
void *storage[kWorkersMost][kSlots];
std::atomic<void *> rings[kWorkersMost - 1][kRingMost];

std::uint64_t now_ns()
{
    using namespace std::chrono;
    return static_cast<std::uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

void fill_and_free(Worker &worker)
{
    worker.fill();
    for (std::uint64_t i = 0; i < worker.live; ++i) worker.give(worker.slots[i]);
}

} // namespace

void die(const char *text)
{
    // Not by stdio: a handler of signals comes here too.
    dprintf(STDERR_FILENO, "hakmem-bench: %s\n", text);
    _exit(1);
}

Worker::Worker(std::uint32_t number, std::uint32_t of, std::size_t bytes, std::uint64_t blocks, const Calls &by)
    : index(number), threads(of), size(bytes), live(blocks), calls(by), draw(1, number), slots(storage[number])
{}

void Worker::begin()
{
    nulls = worst_malloc_ns = worst_free_ns = 0;
}

void *Worker::checked(void *block, std::size_t bytes)
{
    if (block == nullptr) {
        if (!may_fail) die("malloc returned NULL");
        ++nulls;
        return nullptr;
    }
    for (std::size_t at = 0; at < (calls.touched ? bytes : 1); at += kPage) static_cast<volatile char *>(block)[at] = 1;
    return block;
}

void *Worker::take(std::size_t bytes)
{
    const std::uint64_t start = timed ? now_ns() : 0;
    void *block = nullptr;
    if (calls.how == How::kMalloc) {
        block = malloc(bytes);
    } else if (calls.how == How::kCalloc) {
        block = calloc(1, bytes);
    } else if (posix_memalign(&block, calls.align, bytes) != 0) {
        block = nullptr;
    }
    if (timed) worst_malloc_ns = std::max(worst_malloc_ns, now_ns() - start);
    return checked(block, bytes);
}

void Worker::give(void *block)
{
    const std::uint64_t start = timed ? now_ns() : 0;
    free(block);
    if (timed) worst_free_ns = std::max(worst_free_ns, now_ns() - start);
}

void *Worker::resize(void *block, std::size_t bytes)
{
    const std::uint64_t start = timed ? now_ns() : 0;
    block = realloc(block, bytes);
    if (timed) worst_malloc_ns = std::max(worst_malloc_ns, now_ns() - start);
    return checked(block, bytes);
}

void Worker::fill()
{
    for (std::uint64_t i = 0; i < live; ++i)
        if ((slots[i] = take()) == nullptr) live = std::max<std::uint64_t>(i, 1);
}

void tight(Worker &worker, std::uint64_t pairs)
{
    for (std::uint64_t i = worker.share(pairs); i > 0; --i) worker.give(worker.take());
}

template <Order kOrder> void batch(Worker &worker, std::uint64_t pairs)
{
    void **const slots = worker.slots;
    for (std::uint64_t left = worker.share(pairs), count; left > 0; left -= count) {
        count = std::min(left, worker.live);
        for (std::uint64_t i = 0; i < count; ++i) slots[i] = worker.take();
        if (kOrder == Order::kRandom)
            for (std::uint64_t i = count; i > 1; --i) std::swap(slots[i - 1], slots[worker.draw.below(i)]);
        for (std::uint64_t i = 0; i < count; ++i) worker.give(slots[kOrder == Order::kBackwards ? count - 1 - i : i]);
    }
}

void queue(Worker &worker, std::uint64_t pairs)
{
    const std::uint64_t share = worker.share(pairs);
    for (std::uint64_t i = 0, at = 0; i < share; ++i, at = at + 1 == worker.live ? 0 : at + 1) {
        worker.give(worker.slots[at]);
        worker.slots[at] = worker.take();
    }
}

void replace(Worker &worker, std::uint64_t pairs)
{
    for (std::uint64_t i = worker.share(pairs); i > 0; --i) {
        void *&slot = worker.slots[worker.draw.below(worker.live)];
        worker.give(slot);
        slot = worker.take();
    }
}

template <bool kUp> void resize(Worker &worker, std::uint64_t pairs)
{
    constexpr std::uint64_t kSteps = 8;
    for (std::uint64_t done = 0; done < worker.share(pairs); done += kSteps) {
        void *block = worker.take(kUp ? worker.size / kSteps : worker.size);
        for (std::uint64_t step = 2; step <= kSteps; ++step)
            block = worker.resize(block, worker.size * (kUp ? step : kSteps + 1 - step) / kSteps);
        worker.give(block);
    }
}

// Each ring has one thread on each side. Its empty slots are null.
template <Sides kSides> void pass(Worker &worker, std::uint64_t pairs)
{
    const std::uint32_t threads = worker.threads;
    const std::uint32_t givers = kSides == Sides::kHalves ? threads / 2 : kSides == Sides::kOneToMany ? 1 : threads - 1;
    const std::uint32_t takers = threads - givers, count = std::max(givers, takers);
    const std::uint64_t length = std::clamp<std::uint64_t>(worker.live * threads / count, 1, kRingMost);
    const bool gives = worker.index < givers;
    const std::uint32_t first = gives ? worker.index : worker.index - givers, step = gives ? givers : takers;
    for (std::uint64_t i = 0; i * count < pairs; ++i) {
        for (std::uint32_t ring = first; ring < count; ring += step) {
            if (i * count + ring >= pairs) continue;
            std::atomic<void *> &slot = rings[ring][i % length];
            void *block = gives ? worker.take() : nullptr;
            // acquire: pairs with the other side's release, which passes the block, or the slot after the block is read.
            for (void *found; ((found = slot.load(std::memory_order_acquire)) != nullptr) == gives;)
                std::this_thread::yield();
            if (!gives) block = slot.load(std::memory_order_relaxed);
            slot.store(gives ? block : nullptr, std::memory_order_release);
            if (!gives) worker.give(block);
        }
    }
}

template <bool kHandOver> void requests(Worker &worker, std::uint64_t pairs)
{
    const std::uint64_t share = worker.share(pairs);
    for (std::uint64_t done = 0; done < share; done += worker.live) {
        std::thread([&] {
            if (!kHandOver) return fill_and_free(worker);
            for (std::uint64_t i = 0; i < worker.live; ++i) worker.give(worker.slots[i]);
            worker.fill();
        }).join();
    }
}

void forks(Worker &worker, std::uint64_t pairs)
{
    for (std::uint64_t done = 0; done < pairs; done += kForkPairs) {
        const pid_t child = fork();
        if (child < 0) die("fork failed");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // a child that hangs ends with the cell
            replace(worker, kForkPairs);
            _exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || status != 0) die("a child of fork failed");
    }
}

void bursts(Worker &worker, std::uint64_t pairs)
{
    batch<Order::kRandom>(worker, pairs / 2);
    const std::uint64_t start = now_ns();
    std::this_thread::sleep_for(std::chrono::milliseconds(1100)); // despite signals
    worker.paused_ns = now_ns() - start;
    batch<Order::kRandom>(worker, pairs / 2);
}

// Blocks that stay lie behind the others in the slots.
template <int kKeptEach> void phases(Worker &worker, std::uint64_t pairs)
{
    constexpr std::uint64_t kSizes = 8;
    const std::uint64_t rounds = worker.share(pairs) / worker.live;
    void **kept = worker.slots + worker.live;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::size_t size = worker.size * (kSizes + round % kSizes) / kSizes;
        for (std::uint64_t i = 0; i < worker.live; ++i) worker.slots[i] = worker.take(size);
        for (std::uint64_t i = 0; i < worker.live; ++i) {
            if (kKeptEach > 0 && i % kKeptEach == 0) {
                *kept++ = worker.slots[i];
            } else {
                worker.give(worker.slots[i]);
            }
        }
    }
    while (kept > worker.slots + worker.live) worker.give(*--kept);
}

// A destructor that sets its value again is called again, at most PTHREAD_DESTRUCTOR_ITERATIONS times. The last call comes
// after the malloc has cleaned up.
void late(Worker &worker, std::uint64_t pairs)
{
    struct Late {
        Worker &worker;
        pthread_key_t key;
        int calls = 0;
    };
    Late late{worker, 0};
    const auto end = [](void *value) {
        Late &mine = *static_cast<Late *>(value);
        if (++mine.calls < PTHREAD_DESTRUCTOR_ITERATIONS) {
            pthread_setspecific(mine.key, value);
        } else {
            fill_and_free(mine.worker);
        }
    };
    if (pthread_key_create(&late.key, end) != 0) die("pthread_key_create failed");
    const std::uint64_t share = worker.share(pairs);
    for (std::uint64_t done = 0; done < share; done += worker.live) {
        late.calls = 0;
        std::thread([&] {
            worker.give(worker.take()); // the thread has used the malloc before
            pthread_setspecific(late.key, &late);
        }).join();
    }
    pthread_key_delete(late.key);
}

void evict(Worker &worker, std::uint64_t pairs)
{
    for (std::uint64_t i = 0; i < pairs; ++i) {
        void *&slot = worker.slots[worker.draw.below(worker.live)];
        void *block = worker.take();
        worker.give(slot);
        slot = block != nullptr ? block : worker.take();
    }
}

template void batch<Order::kForwards>(Worker &, std::uint64_t);
template void batch<Order::kBackwards>(Worker &, std::uint64_t);
template void batch<Order::kRandom>(Worker &, std::uint64_t);
template void resize<true>(Worker &, std::uint64_t);
template void resize<false>(Worker &, std::uint64_t);
template void pass<Sides::kHalves>(Worker &, std::uint64_t);
template void pass<Sides::kOneToMany>(Worker &, std::uint64_t);
template void pass<Sides::kManyToOne>(Worker &, std::uint64_t);
template void requests<false>(Worker &, std::uint64_t);
template void requests<true>(Worker &, std::uint64_t);
template void phases<0>(Worker &, std::uint64_t);
template void phases<16>(Worker &, std::uint64_t);

} // namespace bench
