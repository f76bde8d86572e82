// The ops of a seat, drawn from its generator in batches. The thread on the seat consumes them; a report may read the
// last ones at any moment, also in a signal handler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/op/op.h"
#include "engine/seat/generator.h"
#include "engine/seat/seat_log.h"

namespace stress {

class OpStream {
  public:
    // Each op gets this number as its thread.
    explicit OpStream(std::uint32_t seat) : seat_(seat), ring_(kRingOps) {}

    // Set before the run. The log is optional: the stream then writes its ops to it.
    Generator *generator = nullptr;
    SeatLog *log = nullptr;

    // The next op, or nullptr at the end of the stream. It stays the next op until it is consumed.
    const Op *next_op()
    {
        if (consumed_ == drawn_ && !refill()) return nullptr;
        if (log != nullptr) [[unlikely]]
            log_begin();
        return &ring_[consumed_ % kRingOps];
    }
    void consume();

    // How many were consumed, and whether the next one is drawn: it is then in progress, or about to be.
    std::uint64_t consumed() const { return consumed_; }
    bool has_next() const { return consumed_ < drawn_; }

    // One of the last ops by its number, up to the next one. At least kRingOps - kBatchOps of them are kept.
    const Op &op(std::uint64_t number) const { return ring_[number % kRingOps]; }

    static constexpr std::size_t kRingOps = 1024, kBatchOps = 256;

  private:
    bool refill();
    void log_begin();

    std::uint32_t seat_;
    Mapped<Op> ring_; // the last ops, and those of the batch that are still to come
    std::uint64_t consumed_ = 0, drawn_ = 0;
};

} // namespace stress
