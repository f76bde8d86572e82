#include "engine/team/fork_park.h"

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/subject/subject.h"
#include "engine/subject/whitebox.h"
#include "engine/team/thread_start.h"

namespace stress {
namespace {

constexpr std::uint64_t kParkNsMax = 1'000'000'000;
constexpr std::size_t kTraded = 300;
constexpr std::size_t kTradedBytes = 512;

// Names that the validation build passes to its hook. "lock_acquire" comes just before a lock is taken, "lock_release"
// just after it is released; alloc/cache/fork_lock_test.cc tests forks with a lock held.
constexpr const char *kSteps[] = {"slab_release",   "lock_release", "owner_adopt",       "pending_push",
                                  "remote_post",    "remote_drain", "remote_drain_slab", "superslab_claim",
                                  "superslab_free", "lock_acquire", "owner_abandon"};

enum Stage : int { Idle, Prepares, Traded, Works, Stands, GoesOn, Ended };

// One helper at a time: it owns these.
std::atomic<bool> taken{false};
std::atomic<int> stage{Idle};
const char *wanted = nullptr;
std::uint32_t skips_left = 0;
void *helpers[kTraded], *forkers[kTraded]; // blocks of each thread, to be freed by the other

constinit thread_local bool may_park = false;

void pause_us(long us)
{
    const timespec pause{0, us * 1000};
    nanosleep(&pause, nullptr);
}

void park_hook(const char *step)
{
    // A thread that finds a lock taken comes here, instead of sleeping in the system.
    if (!may_park) {
        if (std::strcmp(step, "lock_wait") == 0) sched_yield();
        return;
    }
    if (std::strcmp(step, wanted) != 0 || skips_left-- > 0) return;
    may_park = false;
    const int before = errno;
    int now = stage.load(std::memory_order_acquire);
    if (now == GoesOn || !stage.compare_exchange_strong(now, Stands, std::memory_order_acq_rel)) return;
    const std::uint64_t end_ns = clock_ns() + kParkNsMax;
    while (stage.load(std::memory_order_acquire) == Stands && clock_ns() < end_ns) pause_us(50);
    int stands = Stands;
    stage.compare_exchange_strong(stands, GoesOn, std::memory_order_release);
    errno = before;
}

void take_all(void *(&blocks)[kTraded])
{
    for (void *&block : blocks) block = subject::call_malloc(kTradedBytes);
}

void give_all(void *(&blocks)[kTraded])
{
    for (void *&block : blocks) {
        subject::call_free(block);
        block = nullptr;
    }
}

// Passes every step: remote frees, a drain, small blocks, runs, a huge block, and the release of all of it.
void work()
{
    give_all(forkers);
    take_all(helpers);
    give_all(helpers);
    void *runs[24];
    for (void *&block : runs) block = subject::call_malloc(20'000);
    subject::call_free(subject::call_malloc(std::size_t{5} << 20));
    for (void *&block : runs) {
        subject::call_free(block);
        block = subject::call_malloc(std::size_t{64} << 10);
    }
    for (void *block : runs) subject::call_free(block);
    subject::call_purge();
}

void *helper(void *)
{
    // Armed from the start if the step is a thread's first. The steps of the thread's exit come while the hook is still
    // set.
    may_park = std::strcmp(wanted, "owner_adopt") == 0;
    take_all(helpers);
    // The forking thread frees them now, unless this thread is already stopped and will be let go later.
    int expected = Prepares;
    stage.compare_exchange_strong(expected, Traded, std::memory_order_acq_rel);
    while (stage.load(std::memory_order_acquire) == Traded) pause_us(20);
    if (stage.load(std::memory_order_acquire) == Works) {
        may_park = true;
        work();
        int works = Works;
        if (std::strcmp(wanted, "owner_abandon") != 0)
            stage.compare_exchange_strong(works, Ended, std::memory_order_acq_rel);
    } else {
        give_all(forkers);
        give_all(helpers);
    }
    return nullptr;
}

bool take_turn()
{
    for (int i = 0; i < 1000; ++i) {
        // acquire: everything that the previous helper did is visible. Pairs with the releases that reset the flag.
        if (!taken.exchange(true, std::memory_order_acquire)) return true;
        pause_us(100);
    }
    return false;
}

} // namespace

bool fork_park_begin()
{
    return whitebox_set_hook(park_hook);
}

void fork_park_end()
{
    whitebox_set_hook(nullptr);
}

ParkedThread::ParkedThread(std::size_t which, std::uint32_t skip)
{
    if (!whitebox_has_sync_points() || !take_turn()) return;
    wanted = kSteps[which % std::size(kSteps)];
    skips_left = skip;
    stage.store(Prepares, std::memory_order_relaxed);
    take_all(forkers);
    if (thread_create(thread_, helper, nullptr) != 0) {
        give_all(forkers);
        taken.store(false, std::memory_order_release);
        return;
    }
    running_ = true;
    const std::uint64_t end_ns = clock_ns() + kParkNsMax / 4;
    const auto wait_while = [end_ns](int value) {
        while (stage.load(std::memory_order_acquire) == value && clock_ns() < end_ns) pause_us(20);
    };
    wait_while(Prepares);
    int traded = Traded;
    if (stage.load(std::memory_order_acquire) != Traded) return;
    give_all(helpers);
    stage.compare_exchange_strong(traded, Works, std::memory_order_acq_rel);
    wait_while(Works);
}

bool ParkedThread::stands() const
{
    return running_ && stage.load(std::memory_order_acquire) == Stands;
}

const char *ParkedThread::step() const
{
    return running_ ? wanted : "none";
}

ParkedThread::~ParkedThread()
{
    if (!running_) return;
    stage.store(GoesOn, std::memory_order_release);
    thread_join(thread_);
    stage.store(Idle, std::memory_order_relaxed);
    taken.store(false, std::memory_order_release);
}

void fork_park_forked()
{
    whitebox_set_hook(nullptr);
    taken.store(false, std::memory_order_relaxed);
}

} // namespace stress
