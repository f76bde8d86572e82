#include "order/contention/directory.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace stress::order {

Traffic Directory::touch_line(Line &line, unsigned thread, std::uint8_t words, bool is_write)
{
    std::uint64_t &own = line.holders[thread / 64];
    const std::uint64_t self = std::uint64_t{1} << thread % 64;
    const bool is_held = (own & self) != 0;
    if (is_held && !is_write) return {};
    const int holders = std::accumulate(std::begin(line.holders), std::end(line.holders), 0,
                                        [](int sum, std::uint64_t bits) { return sum + std::popcount(bits); });
    Traffic cost;
    if (holders > (is_held ? 1 : 0)) (is_held ? cost.upgrades : cost.fetches) = 1;
    if (is_write) {
        if (line.writer == thread) {
            line.written |= words;
        } else {
            cost.false_sharing = cost.transfers() != 0 && line.writer != kNobody && (line.written & words) == 0;
            line.writer = static_cast<std::uint16_t>(thread);
            line.written = words;
        }
        std::fill(std::begin(line.holders), std::end(line.holders), 0);
    }
    own |= self;
    return cost;
}

Directory::Cost Directory::touch(unsigned thread, const volatile void *address, std::size_t bytes, bool is_write,
                                 std::uintptr_t place)
{
    Cost cost;
    const auto start = reinterpret_cast<std::uintptr_t>(address), end = start + bytes;
    for (std::uintptr_t at = start & ~(kLineBytes - 1); at < end; at += kLineBytes) {
        const std::uintptr_t first = (std::max(start, at) - at) / kWordBytes;
        const std::uintptr_t last = (std::min(end, at + kLineBytes) - 1 - at) / kWordBytes;
        const auto words = static_cast<std::uint8_t>((0xffU << first) & (0xffU >> (7 - last)));
        auto &page = pages_[at / kPageBytes];
        if (page == nullptr) page = std::make_unique<Page>();
        Line &line = (*page)[at % kPageBytes / kLineBytes];
        const Traffic traffic = touch_line(line, thread, words, is_write);
        cost.traffic.add(traffic);
        if (traffic.transfers() != 0) cost.writer = line.place;
        if (is_write) line.place = place;
    }
    return cost;
}

void Directory::forget(const volatile void *address, std::size_t bytes)
{
    const auto start = reinterpret_cast<std::uintptr_t>(address) / kPageBytes;
    const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
    if (pages > pages_.size()) {
        std::erase_if(pages_, [&](const auto &page) { return page.first - start < pages; });
        return;
    }
    for (std::size_t i = 0; i < pages; ++i) pages_.erase(start + i);
}

} // namespace stress::order
