#include "engine/run/monitor.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/build.h"
#include "engine/base/clock.h"
#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "engine/judge/memory_law.h"
#include "engine/seat/seat_report.h"
#include "engine/subject/fault_os.h"
#include "engine/team/thread_start.h"
#include "engine/watch/figures.h"
#include "engine/watch/self_stack.h"

namespace stress {
namespace {

constexpr long kSampleNs = 5'000'000;
constexpr std::uint64_t kShowOnTerminalNs = 200'000'000;
constexpr std::uint64_t kCountMappingsNs = 20'000'000;
constexpr std::uint64_t kShowElsewhereNs = 5'000'000'000;
constexpr std::uint64_t kAskAgainNs = 100'000'000;
constexpr double kSlowTimes = 30;
constexpr double kEnough = 0.1; // of the limit, as processor time: after kSlowTimes of it, for threads that do not hang

double clock_seconds(clockid_t clock)
{
    timespec used{};
    clock_gettime(clock, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Processor time of all threads but this one.
double workers_cpu_seconds()
{
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

} // namespace

Monitor::Monitor(MemoryMeter &meter, const Mapped<Seat *> &seats, FailureLog &failures, MonitorSettings settings)
    : meter_(meter), seats_(seats), failures_(failures), settings_(std::move(settings)),
      terminal_(isatty(settings_.progress_fd) == 1), start_ns_(clock_ns()), moved_ns_(start_ns_), shown_ns_(start_ns_),
      looked_ns_(start_ns_)
{
    seat_report_prepare();
    running_ = thread_create(thread_, thread_entry, this) == 0;
}

Monitor::~Monitor()
{
    stop();
    if (line_open_) write_text(settings_.progress_fd, "\r\033[K");
}

void Monitor::stop()
{
    quit_.store(true, std::memory_order_relaxed);
    if (running_) pthread_join(thread_, nullptr);
    running_ = false;
}

void *Monitor::thread_entry(void *self)
{
    static_cast<Monitor *>(self)->loop();
    return nullptr;
}

void Monitor::loop()
{
    while (!quit_.load(std::memory_order_relaxed)) {
        const MemorySample sample = meter_.sample();
        const std::uint64_t now_ns = clock_ns(), ops = ops_total();
        samples_.add({static_cast<double>(now_ns - start_ns_) / 1e9, sample.live_bytes, sample.rss_bytes, ops});
        watch(now_ns, ops);
        if (settings_.check && !kSanitized && !kEmulated) {
            watch_memory(sample);
            count_mappings(now_ns);
        }
        show(now_ns, ops, sample);
        const timespec pause{0, kSampleNs};
        nanosleep(&pause, nullptr);
    }
}

std::uint64_t Monitor::ops_total() const
{
    std::uint64_t ops = 0;
    for (const Seat *seat : seats_) ops += read(seat->counters.ops);
    return ops;
}

void Monitor::watch(std::uint64_t now_ns, std::uint64_t ops)
{
    // At most this much counts between two looks: on a busy or suspended machine nobody ran meanwhile.
    constexpr double counted_max = 0.1;
    waited_seconds_ += std::min(static_cast<double>(now_ns - looked_ns_) / 1e9, counted_max);
    looked_ns_ = now_ns;
    if (ops != moved_ops_ || self_stack_writing()) {
        moved_ops_ = ops;
        moved_ns_ = now_ns;
        waited_seconds_ = 0;
        moved_cpu_seconds_ = -1;
        return;
    }
    if (moved_cpu_seconds_ < 0) moved_cpu_seconds_ = workers_cpu_seconds();
    if (settings_.watchdog_seconds <= 0 || waited_seconds_ <= settings_.watchdog_seconds || now_ns < ask_again_ns_)
        return;
    ask_again_ns_ = now_ns + kAskAgainNs;
    if (!works(waited_seconds_)) bark();
    if (static_cast<double>(now_ns - moved_ns_) <= kSlowTimes * settings_.watchdog_seconds * 1e9) return;
    // A thread that waits by sched_yield gets little of a busy processor, but by now enough for thousands of ops.
    if (workers_cpu_seconds() - moved_cpu_seconds_ > kEnough * settings_.watchdog_seconds) bark();
    give_up();
}

// Whether the threads only lack a processor: they have used little of it, and one of them waits for it.
bool Monitor::works(double waited_seconds)
{
    constexpr double idle_share = 0.05;
    const double used = workers_cpu_seconds() - moved_cpu_seconds_;
    if (used > settings_.watchdog_seconds) return false;
    return used > idle_share * waited_seconds || others_runnable();
}

// More than twice the limit that is judged at the end, because the counters lag behind what is being filled. It gives
// no verdict; it only stops a run in time.
void Monitor::watch_memory(const MemorySample &sample)
{
    constexpr std::uint64_t lag_bytes = std::uint64_t{1} << 30;
    const std::uint64_t bound =
        2 * memory_bound_bytes(meter_.peak_live_bytes(), seats_.size()) + lag_bytes + fault_os_unreturned_bytes();
    if (sample.rss_bytes <= bound || failures_.any()) return;
    failures_.add(rule::kMemoryBound, seats_[0]->interp.witness(),
                  "memory runs away: %llu bytes are resident for at most %llu live bytes; stopped at %llu",
                  static_cast<unsigned long long>(sample.rss_bytes),
                  static_cast<unsigned long long>(meter_.peak_live_bytes()), static_cast<unsigned long long>(bound));
}

// Reading the list of mappings blocks threads that map memory, so it may take at most one percent of the time.
void Monitor::count_mappings(std::uint64_t now_ns)
{
    if (now_ns < count_mappings_ns_) return;
    meter_.sample_mappings();
    const std::uint64_t after_ns = clock_ns();
    count_mappings_ns_ = after_ns + 100 * (after_ns - now_ns) + kCountMappingsNs;
}

void Monitor::show(std::uint64_t now_ns, std::uint64_t ops, const MemorySample &sample)
{
    if (now_ns - shown_ns_ < (terminal_ ? kShowOnTerminalNs : kShowElsewhereNs)) return;
    const double rate = static_cast<double>(ops - shown_ops_) / (static_cast<double>(now_ns - shown_ns_) / 1e9);
    const std::string text =
        progress_text({static_cast<double>(now_ns - start_ns_) / 1e9, rate, sample.live_bytes, sample.rss_bytes});
    write_text(settings_.progress_fd, terminal_ ? "\r\033[K" + text : text + "\n");
    line_open_ = terminal_;
    shown_ns_ = now_ns;
    shown_ops_ = ops;
}

// Ends the run without a verdict.
void Monitor::give_up()
{
    constexpr int skipped = 77;
    write_text(
        settings_.progress_fd,
        fmt::format("{}skipped: slow: no op was completed for {:.0f} s, in which the threads had a processor for "
                    "{:.1f} s; the machine may be busy\n",
                    line_open_ ? "\r\033[K" : "", kSlowTimes * settings_.watchdog_seconds,
                    workers_cpu_seconds() - moved_cpu_seconds_));
    _exit(skipped);
}

void Monitor::bark()
{
    std::string detail = fmt::format("no op was completed for {} s; ops per thread:", settings_.watchdog_seconds);
    for (const Seat *seat : seats_) detail += fmt::format(" {}:{}", seat->index, read(seat->counters.ops));
    write_text(STDERR_FILENO, (line_open_ ? "\r\033[K" : "") + (kWatchdogWords + detail) + "\n");
    // The threads' own stacks only where there are none from outside: they need the loader's lock, and no names.
    seat_report_all(STDERR_FILENO, seats_, !self_stack_write(STDERR_FILENO, "stacks:\n", getpid(), 0));
    write_text(STDERR_FILENO,
               fmt::format("hakmem-stress: seed {}; repeat with: {}\n", settings_.seed, settings_.reproduce));
    settings_.on_hang(detail);
    _exit(verdict_status(1));
}

} // namespace stress
