#include "bench/status.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench {

std::uint64_t status_kib(const char *name)
{
    char text[8192];
    std::size_t length = 0;
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; fd >= 0 && got > 0 && length < sizeof(text) - 1; length += static_cast<std::size_t>(got)) {
        got = read(fd, text + length, sizeof(text) - 1 - length);
        if (got < 0) break;
    }
    if (fd >= 0) close(fd);
    text[length] = '\0';
    const std::size_t name_length = std::strlen(name);
    for (const char *line = text; line != nullptr && *line != '\0'; line = std::strchr(line, '\n')) {
        if (*line == '\n') ++line;
        if (std::strncmp(line, name, name_length) == 0 && line[name_length] == ':')
            return std::strtoull(line + name_length + 1, nullptr, 10);
    }
    std::fprintf(stderr, "hakmem-bench: /proc/self/status has no %s\n", name);
    std::exit(1);
}

}  // namespace bench
