/* amount.h: amounts of memory as options have them: bytes, or a part of what the process may have. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Reads "BYTES" with a suffix K, M, G or T, or "N%" of the memory that the process may have: the least limit of its
 * cgroup (v2, v1) and that cgroup's parents, or else the machine's memory. root is "" or, in tests, a folder that has
 * /proc/self/cgroup and /sys/fs/cgroup. False: it is neither. */
bool amount_read(const char *text, const char *root, size_t *limit_bytes);

/* Whether bytes may be faulted in at once: 15/16 at most of what the cgroups' limits and the machine's available memory
 * (MemAvailable of root's /proc/meminfo) allow. Beyond that the kernel ends some process. */
bool amount_is_there(size_t bytes, const char *root);
