#include "bench/team.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace bench {
namespace {

std::int64_t now_ns()
{
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// Names this thread. In a log of system calls, the names show where the timed part begins and ends.
void mark(const char *name)
{
    prctl(PR_SET_NAME, name);
}

Usage usage_now()
{
    Usage found;
    for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage usage{};
        getrusage(whose, &usage);
        found.faults += usage.ru_minflt;
        for (const timeval &time : {usage.ru_utime, usage.ru_stime})
            found.cpu_ns += time.tv_sec * 1000000000 + time.tv_usec * 1000;
    }
    return found;
}

Usage usage_of_run;

}  // namespace

Usage timed_usage()
{
    return usage_of_run;
}

void Seat::start()
{
    mark("timed");
    if (!team_.takes_turns_) team_.start_.arrive_and_wait();
    started_ = usage_now();
    started_ns_ = now_ns();
}

void Seat::finish()
{
    finished_ns_ = now_ns();
    finished_ = usage_now();
    mark("ended");
}

bool Seat::turn()
{
    if (!team_.takes_turns_) return false;
    team_.turns_.pass(index);
    team_.turns_.wait(index);
    return true;
}

void Turns::begin(std::uint32_t seat)
{
    const std::lock_guard hold(lock_);
    now_ = seat;
    changed_.notify_all();
}

void Turns::wait(std::uint32_t seat)
{
    std::unique_lock hold(lock_);
    changed_.wait(hold, [&] { return now_ == seat; });
}

void Turns::pass(std::uint32_t seat)
{
    const std::lock_guard hold(lock_);
    const std::size_t count = here_.size();
    for (std::size_t i = 1; i <= count; ++i) {
        now_ = static_cast<std::uint32_t>((seat + i) % count);
        if (here_[now_]) break;
    }
    changed_.notify_all();
}

void Turns::leave(std::uint32_t seat)
{
    {
        const std::lock_guard hold(lock_);
        here_[seat] = false;
    }
    pass(seat);
}

void Turns::end(std::uint32_t seat)
{
    std::unique_lock hold(lock_);
    changed_.wait(hold, [&] { return std::ranges::none_of(here_, [](bool here) { return here; }); });
    ending_ = seat;
    changed_.notify_all();
}

void Turns::wait_end(std::uint32_t seat)
{
    std::unique_lock hold(lock_);
    changed_.wait(hold, [&] { return ending_ == seat; });
}

Team::Team(std::uint32_t threads, bool takes_turns)
    : start_(threads), takes_turns_(takes_turns && threads > 1), turns_(threads)
{
    seats_.reserve(threads);
    for (std::uint32_t i = 0; i < threads; ++i) seats_.emplace_back(*this, i);
}

// What a malloc does when a thread ends is part of the counts: no other thread runs then.
void Team::end_in_order(std::vector<std::jthread> &threads)
{
    for (const Seat &seat : seats_) {
        turns_.end(seat.index);
        threads[seat.index].join();
    }
}

double Team::run(const std::function<void(Seat &)> &work)
{
    if (seats_.size() == 1) {
        work(seats_[0]);
    } else {
        std::vector<std::jthread> threads;
        threads.reserve(seats_.size());
        for (Seat &seat : seats_) {
            threads.emplace_back([this, &work, &seat] {
                if (takes_turns_) turns_.wait(seat.index);
                work(seat);
                if (!takes_turns_) return;
                turns_.leave(seat.index);
                turns_.wait_end(seat.index);
            });
        }
        turns_.begin(0);
        if (takes_turns_) end_in_order(threads);
    }
    std::int64_t first = seats_[0].started_ns_, last = seats_[0].finished_ns_;
    Usage before = seats_[0].started_, after = seats_[0].finished_;
    for (const Seat &seat : seats_) {
        before = {std::min(before.faults, seat.started_.faults), std::min(before.cpu_ns, seat.started_.cpu_ns)};
        after = {std::max(after.faults, seat.finished_.faults), std::max(after.cpu_ns, seat.finished_.cpu_ns)};
        first = std::min(first, seat.started_ns_);
        last = std::max(last, seat.finished_ns_);
    }
    usage_of_run = {after.faults - before.faults, after.cpu_ns - before.cpu_ns};
    return static_cast<double>(last - first) / 1e9;
}

}  // namespace bench
