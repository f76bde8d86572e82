// Samples over the run's time, at most kRows of them. When the array is full, every second sample is dropped and from
// then on half as many are taken. So the rows are evenly spaced, however long the run is.
#pragma once

#include <cstddef>

#include "engine/base/mapped.h"
#include "engine/judge/memory.h"

namespace stress {

class SampleLog {
  public:
    static constexpr std::size_t kRows = 512;

    // Offers a sample; it is kept if its turn has come.
    void add(const TimedSample &sample)
    {
        if (offered_++ % stride_ != 0) return;
        if (count_ == kRows) {
            for (std::size_t i = 0; i < kRows / 2; ++i) rows_[i] = rows_[2 * i];
            count_ = kRows / 2;
            stride_ *= 2;
            if ((offered_ - 1) % stride_ != 0) return;
        }
        rows_[count_++] = sample;
    }

    std::size_t size() const { return count_; }
    const TimedSample &operator[](std::size_t index) const { return rows_[index]; }

  private:
    Mapped<TimedSample> rows_{kRows};
    std::size_t count_ = 0, offered_ = 0, stride_ = 1;
};

}  // namespace stress
