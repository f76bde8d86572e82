// Time as a process that gets every processor it asks for would see it. On a busy machine a run that must last a second
// lasts longer, so that it does as much as elsewhere, and its figures mean the same.
//
// While its threads ask for processors, the clock runs at the share that they get: the processor time that was used, over
// what was asked for by the threads that ran or waited for a processor when they were looked at, each up to the number of
// processors. While all of them sleep it runs as usual. It never runs slower than an eighth on the whole, so a run has an
// end on any machine. One thread at a time.
#pragma once

#include <cstdint>

namespace stress {

// The arithmetic, from times in ns since the start.
class WorkTime {
  public:
    explicit WorkTime(double processors) : processors_(processors) {}

    // At this time that number of threads ran or waited for a processor.
    void look(std::uint64_t now_ns, unsigned runnable);

    // For a process that has used used_ns of processor time by now. At most now_ns.
    std::uint64_t worked_ns(std::uint64_t now_ns, std::uint64_t used_ns) const;

  private:
    std::uint64_t looked_ns_ = 0;
    double busy_ns_ = 0, asked_ns_ = 0; // while a thread asked; what all of them asked for
    double processors_;
};

// Of this process.
class WorkClock {
  public:
    WorkClock();

    // Looks at the threads; call it every few milliseconds. The calling thread does not count. Allocates nothing.
    void look();

    // From the start.
    std::uint64_t worked_ns() const;

  private:
    std::uint64_t start_ns_, used_ns_;
    WorkTime time_;
};

} // namespace stress
