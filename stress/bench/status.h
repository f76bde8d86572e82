// The kernel's figures about this process's memory.
#pragma once

#include <cstdint>

namespace bench {

// A figure of /proc/self/status in KiB, such as "VmRSS" or "VmHWM". Read with plain system calls, so it allocates
// nothing. If there is no such figure, ends the program with status 1.
std::uint64_t status_kib(const char *name);

} // namespace bench
