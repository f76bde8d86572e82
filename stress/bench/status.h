// What the kernel says about this process's memory.
#pragma once

#include <cstdint>

namespace bench {

// A figure of /proc/self/status in KiB, such as "VmRSS" or "VmHWM". Read with plain system calls: it allocates nothing.
// Ends the program with status 1 where there is no such figure.
std::uint64_t status_kib(const char *name);

} // namespace bench
