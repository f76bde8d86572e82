#include "engine/monitor.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include "engine/progress.h"
#include "engine/team.h"

namespace stress {
namespace {

constexpr long kSampleNs = 5'000'000;
constexpr std::uint64_t kShowOnTerminalNs = 200'000'000;
constexpr std::uint64_t kShowElsewhereNs = 5'000'000'000;

}  // namespace

Monitor::Monitor(MemoryMeter &meter, const Mapped<Seat *> &seats, MonitorSettings settings)
    : meter_(meter), seats_(seats), settings_(std::move(settings)), terminal_(isatty(settings_.progress_fd) == 1),
      start_ns_(clock_ns()), moved_ns_(start_ns_), shown_ns_(start_ns_)
{
    running_ = thread_create(thread_, thread_entry, this) == 0;
}

Monitor::~Monitor()
{
    quit_.store(true, std::memory_order_relaxed);
    if (running_) pthread_join(thread_, nullptr);
    if (line_open_) write_text(settings_.progress_fd, "\r\033[K");
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
        watch(now_ns, ops);
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
    if (ops != moved_ops_) {
        moved_ops_ = ops;
        moved_ns_ = now_ns;
    } else if (settings_.watchdog_seconds > 0 &&
               static_cast<double>(now_ns - moved_ns_) > settings_.watchdog_seconds * 1e9) {
        bark();
    }
}

void Monitor::show(std::uint64_t now_ns, std::uint64_t ops, const MemorySample &sample)
{
    if (now_ns - shown_ns_ < (terminal_ ? kShowOnTerminalNs : kShowElsewhereNs)) return;
    const double rate = static_cast<double>(ops - shown_ops_) / (static_cast<double>(now_ns - shown_ns_) / 1e9);
    const std::string text = progress_text(
        {static_cast<double>(now_ns - start_ns_) / 1e9, rate, sample.live_bytes, sample.rss_bytes});
    write_text(settings_.progress_fd, terminal_ ? "\r\033[K" + text : text + "\n");
    line_open_ = terminal_;
    shown_ns_ = now_ns;
    shown_ops_ = ops;
}

void Monitor::bark()
{
    std::string text = fmt::format("{}hakmem-stress: watchdog: no op was completed for {} s; ops per thread:",
                                   line_open_ ? "\r\033[K" : "", settings_.watchdog_seconds);
    for (const Seat *seat : seats_) text += fmt::format(" {}:{}", seat->index, read(seat->counters.ops));
    text += fmt::format("; seed {}; repeat with: {}\n", settings_.seed, settings_.reproduce);
    write_text(STDERR_FILENO, text);
    _exit(1);
}

}  // namespace stress
