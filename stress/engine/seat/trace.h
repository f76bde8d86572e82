// The outcome of each memory op, without addresses, so that two mallocs can be compared.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/judge/oracle.h"
#include "engine/op/block.h"

namespace stress {

// An outcome that was never written is all zero; a written one never is.
struct OpOutcome {
    enum Result : std::uint8_t { Skipped, Null, Given, Freed };
    std::uint8_t result;
    std::uint8_t aligned;   // 1: aligned as the request demands, or there is no block
    std::uint16_t sound;    // 1: the oracle found no fault
    std::int32_t error;     // of a refusal: errno, or the return value of posix_memalign
};

// One seat writes it, in the order of its ops, to memory of the caller; outcomes that do not fit are dropped.
class Trace {
  public:
    Trace(OpOutcome *outcomes, std::size_t room) : outcomes_(outcomes), room_(room) {}

    void add(std::uint8_t result, int error, const Block *block)
    {
        if (count_ < room_) {
            const bool aligned =
                block == nullptr || reinterpret_cast<std::uintptr_t>(block->start) %
                                            required_align_bytes(block->size_bytes, block->align_bytes) ==
                                        0;
            outcomes_[count_] = {result, aligned, 1, error};
        }
        ++count_;
    }

    // The oracle has found a fault with the last op that was added.
    void mark_unsound()
    {
        if (count_ > 0 && count_ <= room_) outcomes_[count_ - 1].sound = 0;
    }

  private:
    OpOutcome *outcomes_;
    std::size_t room_, count_ = 0;
};

}  // namespace stress
