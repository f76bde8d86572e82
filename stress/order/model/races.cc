#include "order/model/races.h"

#include <algorithm>
#include <bit>

namespace stress::order {
namespace {

constexpr std::uintptr_t kCellBytes = 8;

bool is_stronger(PlainOrAtomic a, PlainOrAtomic b)
{
    return a.is_write >= b.is_write && a.is_atomic <= b.is_atomic;
}

} // namespace

std::optional<Race> Races::touch(const volatile void *address, std::size_t bytes, PlainOrAtomic kind, Event event,
                                 const Clock &clock, std::uint32_t stack)
{
    auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = at + bytes;
    while (at < end) {
        const std::uintptr_t cell = at / kCellBytes, next = std::min(end, (cell + 1) * kCellBytes);
        const auto mask = static_cast<std::uint8_t>(((1U << (next - at)) - 1) << at % kCellBytes);
        if (auto race = touch_cell(cell, {event, kind, mask, stack}, clock)) return race;
        at = next;
    }
    return {};
}

std::optional<Race> Races::touch_cell(std::uintptr_t cell, const Touch &now, const Clock &clock)
{
    auto &before = cells_[cell];
    for (const Touch &old : before) {
        const auto common = static_cast<std::uint8_t>(old.bytes & now.bytes);
        if (common == 0 || clock.has(old.event) || old.event.thread == now.event.thread) continue;
        if (!old.kind.is_write && !now.kind.is_write) continue;
        if (old.kind.is_atomic && now.kind.is_atomic) continue;
        return Race{cell * kCellBytes + static_cast<unsigned>(std::countr_zero(common)), old, now};
    }
    // Whatever races with the old one and comes later races with this one, too: the old one happens before it, covers no
    // other byte, and conflicts with no more.
    std::erase_if(before, [&](const Touch &old) {
        return (old.bytes & ~now.bytes) == 0 && is_stronger(now.kind, old.kind) &&
               (clock.has(old.event) || old.event.thread == now.event.thread);
    });
    before.push_back(now);
    return {};
}

void Races::forget(const volatile void *address, std::size_t bytes)
{
    if (bytes == 0 || cells_.empty()) return;
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t first = start / kCellBytes, last = (start + bytes - 1) / kCellBytes;
    if (last - first > cells_.size()) {
        std::erase_if(cells_, [&](const auto &cell) { return cell.first >= first && cell.first <= last; });
        return;
    }
    for (std::uintptr_t cell = first; cell <= last; ++cell) cells_.erase(cell);
}

} // namespace stress::order
