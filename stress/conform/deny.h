// System calls that fail, or that stop a thread on its way: seccomp filters on the calling thread alone.
//
// A filter cannot be taken away, but it stays with the thread (and what it starts), so a check puts it on a thread
// that it made for that. The stacks of new threads (MAP_STACK) always get through: a filter that stopped those would
// test nothing. Each filter is proved when it is set.
#pragma once

#include <span>

namespace stress::conform {

// mmap, mremap, brk and mprotect: no more memory for this thread. False where the kernel refuses.
bool deny_memory();

// These calls fail with the error. False where the kernel refuses.
bool deny_calls(std::span<const long> numbers, int error);

// From now on each call of this thread that maps, unmaps or advises waits until a Gate lets it pass. Returns the
// descriptor for the Gate, or -1 where the kernel refuses.
int gate_memory_calls();

// The other side of gate_memory_calls, for another thread.
class Gate {
  public:
    explicit Gate(int descriptor) : descriptor_(descriptor) {}
    // Waits until a call stands at the gate; false when none came in that time.
    bool arrived(int milliseconds);
    // Lets that call pass. Any thread.
    void pass();

  private:
    int descriptor_;
    unsigned long long id_ = 0;
};

}  // namespace stress::conform
