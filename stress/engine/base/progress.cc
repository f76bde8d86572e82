#include "engine/base/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace stress {

std::string format_bytes(std::uint64_t bytes)
{
    constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(units)) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string format_rate(double per_second)
{
    if (per_second < 1e3) return fmt::format("{:.0f}", per_second);
    if (per_second < 1e6) return fmt::format("{:.2f} k", per_second / 1e3);
    if (per_second < 1e9) return fmt::format("{:.2f} M", per_second / 1e6);
    return fmt::format("{:.2f} G", per_second / 1e9);
}

std::string progress_text(const Progress &progress)
{
    return fmt::format("{:5.1f} s   {} ops/s   live {}   rss {}", progress.seconds,
                       format_rate(progress.ops_per_second), format_bytes(progress.live_bytes),
                       format_bytes(progress.rss_bytes));
}

namespace {

std::atomic<int> lost_error = 0;

}  // namespace

bool write_text(int fd, const std::string &text)
{
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t written = write(fd, text.data() + done, text.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            if (fd == STDOUT_FILENO) lost_error = written == 0 ? ENOSPC : errno;
            return false;
        }
        done += static_cast<std::size_t>(written);
    }
    return true;
}

int stdout_error()
{
    return lost_error;
}

}  // namespace stress
