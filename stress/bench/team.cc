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

std::int64_t faults_now()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

std::int64_t faults_of_run = 0;

}  // namespace

std::int64_t timed_faults()
{
    return faults_of_run;
}

void Seat::start()
{
    mark("timed");
    team_.start_.arrive_and_wait();
    started_faults_ = faults_now();
    started_ns_ = now_ns();
}

void Seat::finish()
{
    finished_ns_ = now_ns();
    finished_faults_ = faults_now();
    mark("ended");
}

Team::Team(std::uint32_t threads) : start_(threads)
{
    seats_.reserve(threads);
    for (std::uint32_t i = 0; i < threads; ++i) seats_.emplace_back(*this, i);
}

double Team::run(const std::function<void(Seat &)> &work)
{
    if (seats_.size() == 1) {
        work(seats_[0]);
    } else {
        std::vector<std::jthread> threads;
        threads.reserve(seats_.size());
        for (Seat &seat : seats_) threads.emplace_back([&work, &seat] { work(seat); });
    }
    std::int64_t first = seats_[0].started_ns_, last = seats_[0].finished_ns_;
    std::int64_t before = seats_[0].started_faults_, after = seats_[0].finished_faults_;
    for (const Seat &seat : seats_) {
        before = std::min(before, seat.started_faults_);
        after = std::max(after, seat.finished_faults_);
        first = std::min(first, seat.started_ns_);
        last = std::max(last, seat.finished_ns_);
    }
    faults_of_run = after - before;
    return static_cast<double>(last - first) / 1e9;
}

}  // namespace bench
