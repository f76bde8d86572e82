// step_test_support.h: runs code in a thread of its own, one instruction after the other, and stops that thread where its
// memory has changed. What another thread sees of it, or a child that is forked, changes only there.
#pragma once

#include "base/test_support.h"

namespace test {

// Why threads cannot be stepped here; nullptr: they can.
const char *stepping_lacks();

struct Span {
    const void *start;
    size_t size_bytes;
};

// What is stepped, and where it stops.
struct Stepped {
    std::function<void()> before; // runs first in the thread, without stops; may be empty
    void (*work)(); // must not call libc's malloc or anything that takes a lock of libc
    std::function<void()> after; // as before
    // Of the instructions that write to memory other than the thread's stack, stops after the first-th, counted from 0, and
    // after each `stride`-th; above 1 the stride widens by an eighth of the writes before. An instruction that writes again
    // and again counts 16 times, and then at each doubling. A copy of more than 4 KiB counts as one.
    uint64_t stride, first;
    // Memory that `work` changes, looked at after each instruction: that no change is missed.
    std::function<std::vector<Span>()> watched; // called in the thread after `before`; may be empty
};

struct StepCounts {
    uint64_t instructions, writes, stops;
    uintptr_t missed; // the code address of a change of what is watched that was not taken for a write; 0: none
};

// Calls at_stop in this thread while the other one is stopped: the number of the write, and the address of the code after
// it.
StepCounts step_through(const Stepped &stepped, const std::function<void(uint64_t write, uintptr_t code)> &at_stop);

} // namespace test
