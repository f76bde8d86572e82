// Figures about the process, read from /proc without stdio, which would allocate.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "conform/process.h"

namespace stress::conform {
namespace {

// The first number after `key` in a file of /proc that fits the buffer.
std::size_t number_after(const char *path, const char *key)
{
    char text[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *at = std::strstr(text, key);
    if (at == nullptr) return 0;
    at += std::strlen(key);
    while (*at == ' ' || *at == '\t') ++at;
    std::size_t number = 0;
    for (; *at >= '0' && *at <= '9'; ++at) number = number * 10 + static_cast<std::size_t>(*at - '0');
    return number;
}

// Calls `visit(address)` with the start of each mapping of /proc/self/maps.
template <typename Visit> void each_mapping(Visit &&visit)
{
    char text[8192];
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    bool at_start = true;
    std::uintptr_t address = 0;
    bool in_address = false;
    for (ssize_t length; (length = read(fd, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < length; ++i) {
            const char c = text[i];
            if (at_start) in_address = true, address = 0, at_start = false;
            if (in_address && c == '-') in_address = false, visit(address);
            if (in_address) address = address * 16 + static_cast<std::uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
            if (c == '\n') at_start = true;
        }
    close(fd);
}

}  // namespace

std::size_t resident_bytes()
{
    return number_after("/proc/self/status", "VmRSS:") * 1024;
}

std::size_t address_space_bytes()
{
    return number_after("/proc/self/status", "VmSize:") * 1024;
}

std::size_t data_bytes()
{
    return number_after("/proc/self/status", "VmData:") * 1024;
}

std::size_t first_free_descriptor()
{
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd >= 0 ? static_cast<std::size_t>(fd) : SIZE_MAX;
}

long mapping_count()
{
    long count = 0;
    each_mapping([&](std::uintptr_t) { ++count; });
    return count;
}

bool mapped_below(std::uintptr_t limit)
{
    bool found = false;
    each_mapping([&](std::uintptr_t start) { found |= start < limit; });
    return found;
}

}  // namespace stress::conform
