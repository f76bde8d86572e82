#include "order/run/stacks.h"

namespace stress::order {

std::uint32_t Stacks::push(std::uint32_t stack, std::uintptr_t pc)
{
    const auto fresh = static_cast<std::uint32_t>(frames_.size());
    const auto [found, is_new] = frames_[stack].inner.try_emplace(pc, fresh);
    const std::uint32_t inner = found->second;
    if (is_new) frames_.push_back({pc, stack, {}});
    return inner;
}

std::vector<std::uintptr_t> Stacks::frames(std::uint32_t stack) const
{
    std::vector<std::uintptr_t> all;
    for (; stack != kNone; stack = frames_[stack].outer) all.push_back(frames_[stack].pc);
    return all;
}

} // namespace stress::order
