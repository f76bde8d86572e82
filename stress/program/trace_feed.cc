#include "program/trace_feed.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>

namespace stress {

class TraceFeed::Source final : public Generator {
  public:
    Source(TraceFeed &feed, Queue &queue) : feed_(feed), queue_(queue) {}
    std::size_t fill(Op *out, std::size_t room) override { return feed_.fill(queue_, out, room); }

  private:
    TraceFeed &feed_;
    Queue &queue_;
};

TraceFeed::TraceFeed(const std::string &path, bool forks)
    : reader_(path, fault_), forks_(forks), queues_(reader_.figures().threads), counts_(reader_.figures().threads)
{}

TraceFeed::~TraceFeed()
{
    if (thread_.has_value()) thread_->join();
}

Plan TraceFeed::plan()
{
    Plan plan;
    plan.slot_count = reader_.figures().slots;
    for (Queue &queue : queues_) plan.generators.push_back(std::make_unique<Source>(*this, queue));
    return plan;
}

void TraceFeed::start(const std::atomic<bool> &stop)
{
    sigset_t all, before; // the signals of a run are for its seats
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    thread_.emplace([this, &stop] { read_ahead(stop); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The seat has done all that it got before.
std::size_t TraceFeed::fill(Queue &queue, Op *out, std::size_t room)
{
    // relaxed: written by this seat alone, after the first part.
    for (;;) {
        if (queue.taken != 0) {
            const Part &part = queue.parts[(queue.taken - 1) % std::size(queue.parts)];
            Frame &frame = frames_[part.frame];
            if (queue.done < part.count) {
                const std::size_t count = std::min<std::size_t>(room, part.count - queue.done);
                std::memcpy(out, &frame.ops[part.first + queue.done], count * sizeof(Op));
                queue.done += static_cast<std::uint32_t>(count);
                return count;
            }
            // release: the seat's reads of the frame. Pairs with the acquire in frame_is_free.
            if (queue.done != kAllDone) frame.pending.fetch_sub(1, std::memory_order_release);
            queue.done = kAllDone;
        }
        // acquire: the part and its ops. Pairs with the release in give.
        const std::uint32_t given = queue.given.load(std::memory_order_acquire);
        if ((given & ~kEnded) != queue.taken) {
            ++queue.taken;
            queue.done = 0;
        } else if ((given & kEnded) != 0) {
            return 0;
        } else {
            queue.given.wait(given, std::memory_order_acquire);
        }
    }
}

bool TraceFeed::frame_is_free(const Frame &frame, const std::atomic<bool> &stop) const
{
    const timespec pause{0, 50'000};
    while (frame.pending.load(std::memory_order_acquire) != 0) {
        if (stop.load(std::memory_order_relaxed)) return false;
        nanosleep(&pause, nullptr);
    }
    return !stop.load(std::memory_order_relaxed);
}

// Sorts the ops of a frame by seat, and gives each seat its part.
void TraceFeed::give_out(std::uint32_t frame_index, std::size_t count)
{
    Frame &frame = frames_[frame_index];
    const std::span<const Op> ops{read_.begin(), count};
    std::fill(counts_.begin(), counts_.end(), 0);
    for (const Op &op : ops) ++counts_[op.thread];
    std::uint32_t end = 0, seats = 0;
    for (std::uint32_t &seat_count : counts_) { // from counts to the end of each part
        seats += seat_count != 0;
        seat_count = end += seat_count;
    }
    for (const Op &op : std::views::reverse(ops)) frame.ops[--counts_[op.thread]] = op; // to the begin of each part
    frame.pending.store(seats, std::memory_order_relaxed); // published by give
    for (std::size_t seat = queues_.size(); seat-- > 0;) {
        const std::uint32_t first = counts_[seat];
        const Part part{frame_index, first, std::exchange(end, first) - first};
        if (part.count == 0) continue;
        Queue &queue = queues_[seat];
        const std::uint32_t given = queue.given.load(std::memory_order_relaxed);
        queue.parts[given % std::size(queue.parts)] = part;
        give(queue, given + 1);
    }
}

// The reader alone writes `given`.
void TraceFeed::give(Queue &queue, std::uint32_t given)
{
    // release: the parts and their ops. Pairs with the acquire in fill.
    queue.given.store(given, std::memory_order_release);
    queue.given.notify_one();
}

void TraceFeed::read_ahead(const std::atomic<bool> &stop)
{
    for (std::uint32_t frame = 0; frame_is_free(frames_[frame], stop); frame = (frame + 1) % kFrames) {
        std::size_t count = 0;
        if (!reader_.next(read_.begin(), count)) {
            fault_ = "changed while it was replayed";
            break;
        }
        if (count == 0) break;
        if (!forks_) {
            const Op *end = std::remove_if(read_.begin(), read_.begin() + count,
                                           [](const Op &op) { return op.kind == OpKind::Fork; });
            count = static_cast<std::size_t>(end - read_.begin());
        }
        give_out(frame, count);
    }
    end();
}

// No more ops come.
void TraceFeed::end()
{
    for (Queue &queue : queues_) give(queue, queue.given.load(std::memory_order_relaxed) | kEnded);
}

} // namespace stress
