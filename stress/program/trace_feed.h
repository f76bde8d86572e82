// Feeds a trace to the seats of a run while they run, so that a trace of any length takes a bounded part of memory.
//
// A thread of the harness reads frames ahead and gives each seat its ops of a frame. It reads a frame only when all seats
// have done their ops of the frame kFrames before, so no seat is ahead of another by more than kFrames * kTraceFrameOps
// ops of the trace, and the replay has about as much live at each time as the program had. Beyond links, that is the only
// order between threads that a replay adds.
//
// It is for the system's schedule: under the seeded scheduler the seats would wait for a thread that it does not know.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "engine/run/scenario.h"
#include "program/trace_file.h"

namespace stress {

class TraceFeed {
  public:
    // The file must be sound (trace_check). `forks`: whether the seats get the Fork ops.
    TraceFeed(const std::string &path, bool forks);
    ~TraceFeed();
    TraceFeed(const TraceFeed &) = delete;
    TraceFeed &operator=(const TraceFeed &) = delete;

    // The plan of the run. The feed must outlive it.
    Plan plan();

    // Call before the run. `stop`: set when the seats must end.
    void start(const std::atomic<bool> &stop);

    // What went wrong while it was read; empty: nothing. Call after the run.
    const std::string &fault() const { return fault_; }

  private:
    static constexpr std::uint32_t kFrames = 8;
    static constexpr std::uint32_t kAllDone = ~0U;
    static constexpr std::uint32_t kEnded = 1U << 31; // in Queue::given
    struct Part {
        std::uint32_t frame, first, count;
    };
    // One reader writes parts, one seat takes them.
    struct alignas(128) Queue {
        Part parts[2 * kFrames];
        std::uint32_t taken = 0, done = 0; // the seat's: parts that it began; how far it is in the last of them
        std::atomic<std::uint32_t> given{0}; // parts that the reader wrote, and kEnded when there are no more
    };
    struct Frame {
        Mapped<Op> ops{kTraceFrameOps};
        std::atomic<std::uint32_t> pending{0}; // seats that have not done their ops of it
    };
    class Source;

    std::size_t fill(Queue &queue, Op *out, std::size_t room);
    void read_ahead(const std::atomic<bool> &stop);
    bool frame_is_free(const Frame &frame, const std::atomic<bool> &stop) const;
    void give_out(std::uint32_t frame_index, std::size_t count);
    static void give(Queue &queue, std::uint32_t given);
    void end();

    std::string fault_;
    TraceReader reader_;
    bool forks_;
    Mapped<Queue> queues_;
    Mapped<Frame> frames_{kFrames};
    Mapped<Op> read_{kTraceFrameOps};
    Mapped<std::uint32_t> counts_; // of the ops of each seat in a frame
    std::optional<std::thread> thread_;
};

} // namespace stress
