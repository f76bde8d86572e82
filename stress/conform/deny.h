// Makes system calls fail, or stop the calling thread until it is let on: seccomp filters on that thread alone.
//
// A filter cannot be removed, and applies only to the thread and those that it starts. So a check creates a thread for
// it. mmap of a new thread's stack (MAP_STACK) always succeeds; denying it would test nothing. Each filter is tested
// when it is installed.
#pragma once

#include <span>

namespace stress::conform {

// Denies mmap, mremap, brk and mprotect: this thread gets no more memory. False if the kernel refuses the filter.
bool deny_memory();

// These calls fail with this error. False if the kernel refuses the filter.
bool deny_calls(std::span<const long> numbers, int error);

// From now on each call of this thread that maps, unmaps or advises memory waits until a Gate lets it pass. Returns the
// descriptor for the Gate, or -1 if the kernel refuses.
int gate_memory_calls();

// The other side of gate_memory_calls, for another thread.
class Gate {
  public:
    explicit Gate(int descriptor) : descriptor_(descriptor) {}
    // Waits until a call is at the gate; false if none came in that time.
    bool arrived(int milliseconds);
    // Lets that call pass. Any thread.
    void pass();

  private:
    int descriptor_;
    unsigned long long id_ = 0;
};

} // namespace stress::conform
