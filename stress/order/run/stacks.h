// Call stacks as numbers: two that share their outer frames share their nodes.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace stress::order {

class Stacks {
  public:
    static constexpr std::uint32_t kNone = 0;

    // The stack with one more frame.
    std::uint32_t push(std::uint32_t stack, std::uintptr_t pc);
    std::uint32_t pop(std::uint32_t stack) const { return stack == kNone ? kNone : frames_[stack].outer; }
    // Innermost first.
    std::vector<std::uintptr_t> frames(std::uint32_t stack) const;

  private:
    struct Frame {
        std::uintptr_t pc = 0;
        std::uint32_t outer = kNone;
        std::unordered_map<std::uintptr_t, std::uint32_t> inner;
    };
    std::vector<Frame> frames_{1};
};

} // namespace stress::order
