// The source of a seat's ops: a scenario draws them, or a file of ops holds them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "engine/op/op.h"

namespace stress {

// The stream of ops of one seat. It may depend on the seed and on earlier draws, never on time or on other threads: one
// seed decides everything.
class Generator {
  public:
    virtual ~Generator() = default;

    // Writes up to `room` ops and returns how many it wrote; 0: the stream has ended.
    virtual std::size_t fill(Op *out, std::size_t room) = 0;
};

// Makes a Generator from a struct with `bool next(Op &op)`, which returns false at the end of the stream.
template <typename Draw> class GeneratorOf final : public Generator {
  public:
    explicit GeneratorOf(Draw draw) : draw_(std::move(draw)) {}

    std::size_t fill(Op *out, std::size_t room) override
    {
        std::size_t count = 0;
        while (count < room && draw_.next(out[count])) ++count;
        return count;
    }

  private:
    Draw draw_;
};

template <typename Draw> std::unique_ptr<Generator> generator_of(Draw draw)
{
    return std::make_unique<GeneratorOf<Draw>>(std::move(draw));
}

} // namespace stress
