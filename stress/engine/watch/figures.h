// What a child and all its descendants use, read from /proc. For the program that watches them, which forks more
// children: nothing here allocates, except available_bytes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace stress {

struct Processes {
    static constexpr std::size_t kMax = 64;  // of more, the rest is not seen
    pid_t ids[kMax] = {};
    std::size_t count = 0;

    void add(pid_t process)
    {
        if (count < kMax) ids[count++] = process;
    }
    const pid_t *begin() const { return ids; }
    const pid_t *end() const { return ids + count; }
};

struct TreeFigures {
    Processes processes;  // the child first, without those that have ended
    double cpu_seconds = 0;        // of all their threads so far, and of their children that were waited for
    std::uint64_t private_bytes = 0; // resident and not a file's; a page that a fork shares counts once in each process
    bool runnable = false; // a thread runs, waits for a processor, or waits for the kernel
};

TreeFigures tree_figures(pid_t child);

// Resident bytes of the processes, each shared page divided among those that map it. Slower.
std::uint64_t tree_proportional_bytes(const Processes &processes);

// Whether a thread of one of these processes has this id.
bool tree_has_thread(const Processes &processes, pid_t thread);

// Whether a thread of this process, other than the calling one, runs or waits for a processor.
bool others_runnable();

// The number of threads of this process, other than the calling one, that run or wait for a processor.
unsigned others_runnable_count();

// Processors that this process may use at one time: those that it may run on, or what its control group (version 2) is
// allowed of them where that is less.
double processors_available();

// Memory that a new process can take before the machine swaps or kills: what the kernel calls available, or what the
// control group of this process has left where that is less.
std::uint64_t available_bytes();

} // namespace stress
