#include "engine/judge/memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace stress {
namespace {

constexpr int kThreadsField = 18;  // of /proc/self/stat, behind the name: num_threads of proc(5)

void raise_to(std::atomic<std::uint64_t> &peak, std::uint64_t value)
{
    std::uint64_t seen = peak.load(std::memory_order_relaxed);
    while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {}
}

// The beginning of a file of /proc, as a string in the caller's buffer. False: it cannot be read.
template <std::size_t kBytes> bool read_text(const char *path, char (&text)[kBytes])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t length = ::read(fd, text, kBytes - 1);
    close(fd);
    if (length <= 0) return false;
    text[length] = '\0';
    return true;
}

}  // namespace

std::size_t process_resident_bytes()
{
    static const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    char text[128];
    const ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length <= 0) return 0;
    text[length] = '\0';
    char *second = nullptr;
    std::strtoull(text, &second, 10);
    return std::strtoull(second, nullptr, 10) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void process_peak_begin()
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    [[maybe_unused]] const ssize_t written = ::write(fd, "5", 1); // proc(5): the peak becomes what is resident now
    close(fd);
}

std::size_t process_peak_resident_bytes()
{
    char text[4096];
    if (!read_text("/proc/self/status", text)) return 0;
    const char *line = std::strstr(text, "VmHWM:");
    return line == nullptr ? 0 : std::strtoull(line + 6, nullptr, 10) << 10;
}

std::size_t process_mapping_count()
{
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    char text[8192];
    std::size_t lines = 0;
    for (ssize_t length; (length = ::read(fd, text, sizeof text)) > 0;)
        lines += static_cast<std::size_t>(std::count(text, text + length, '\n'));
    close(fd);
    return lines;
}

std::size_t process_thread_count()
{
    char text[1024];
    if (!read_text("/proc/self/stat", text)) return 0;
    const char *field = std::strrchr(text, ')');  // the program's name may contain any character, even brackets
    for (int i = 0; field != nullptr && i < kThreadsField; ++i) field = std::strchr(field + 1, ' ');
    return field == nullptr ? 0 : std::strtoull(field, nullptr, 10);
}

MemorySample MemoryMeter::sample()
{
    const std::uint64_t resident = process_resident_bytes();
    const std::uint64_t own = harness_resident_bytes() + claims_.resident_bytes();
    std::uint64_t allocated = 0, freed = 0;
    for (const Counters *counters : counters_) {
        allocated += read(counters->bytes_allocated);
        freed += read(counters->bytes_freed);
    }
    const MemorySample sample{resident > own ? resident - own : 0, allocated > freed ? allocated - freed : 0};
    raise_to(peak_rss_bytes_, sample.rss_bytes);
    raise_to(peak_live_bytes_, sample.live_bytes);
    return sample;
}

std::size_t MemoryMeter::sample_mappings()
{
    // Without stacks and their guards: on a busy machine hundreds of threads may have ended without being gone yet.
    const std::size_t stacks = 2 * process_thread_count(), all = process_mapping_count();
    const std::size_t count = all > stacks ? all - stacks : 0;
    raise_to(peak_mapping_count_, count);
    return count;
}

} // namespace stress
