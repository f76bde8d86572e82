// What goes wrong in a run besides its schedule: calls to the system that are refused, address space that ends, waits that a
// signal interrupts, a clock that jumps. All of it is counted from the beginning of the run, so a schedule repeats.
#pragma once

#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

namespace stress::order {

struct Troubles {
    // The calls that may be refused, a bit each.
    enum : unsigned { kMap = 1, kUnmap = 2, kRemap = 4, kAdvise = 8, kProtect = 16, kCalls = 5 };
    unsigned refusable = 0;
    unsigned first = 0; // the number of the first of them that is refused, from 1; 0: none
    unsigned every = 0; // behind it, one of this number is; 0: none
    std::size_t space_bytes = SIZE_MAX; // a run may map
    unsigned interrupt_every = 0; // one of this number of waits ends by a signal; 0: none
    std::uint64_t look_ms = 0; // the clock moves by this at each look

    // Of this run.
    unsigned calls = 0, waits = 0, refused = 0;
    std::size_t mapped_bytes = 0;
    std::uint64_t now_ms = 0;

    void begin()
    {
        calls = waits = refused = 0;
        mapped_bytes = 0;
        now_ms = 0;
    }

    // Whether the system refuses this call.
    bool refuses(long number, std::size_t bytes)
    {
        const unsigned kind = number == SYS_mmap      ? kMap
                              : number == SYS_munmap  ? kUnmap
                              : number == SYS_mremap  ? kRemap
                              : number == SYS_madvise ? kAdvise
                                                      : kProtect;
        bool is_refused = false;
        if ((refusable & kind) != 0 && ++calls >= first && first != 0)
            is_refused = calls == first || (every != 0 && (calls - first) % every == 0);
        if (kind == kMap && !is_refused) {
            is_refused = bytes > space_bytes || mapped_bytes > space_bytes - bytes;
            if (!is_refused) mapped_bytes += bytes;
        }
        refused += is_refused;
        return is_refused;
    }

    // What the clock says.
    std::uint64_t look() { return now_ms += look_ms; }

    bool interrupts() { return interrupt_every != 0 && ++waits % interrupt_every == 0; }
};

// Those of the runs; nullptr: nothing goes wrong.
inline Troubles *troubles_now = nullptr;

} // namespace stress::order
