#include "explore/shares.h"

#include <cstdio>
#include <cstdlib>

namespace stress {

bool Shares::is_shared_now(const Cell &cell)
{
    const unsigned all = cell.readers | cell.writers;
    return cell.writers != 0 && (all & (all - 1)) != 0;
}

bool Shares::note(unsigned thread, const char *what, const volatile void *address)
{
    const auto word = reinterpret_cast<std::uintptr_t>(address);
    std::size_t at = (word >> 1) * 0x9e3779b97f4a7c15ULL >> 40 & (kCells - 1);
    while (cells_[at].address != word) {
        if (cells_[at].address == 0) {
            if (++used_ > kCells / 2) {
                std::fputs("explore: the scenario accesses too many words: Shares::kCells\n", stderr);
                std::exit(2);
            }
            cells_[at].address = word;
            break;
        }
        at = (at + 1) & (kCells - 1);
    }
    Cell &cell = cells_[at];
    (what[0] == 'l' ? cell.readers : cell.writers) |= static_cast<std::uint8_t>(1u << thread);
    if (!cell.is_shared && is_shared_now(cell)) grown_ = true;
    return cell.is_shared;
}

void Shares::learn()
{
    grown_ = false;
    count_ = 0;
    for (Cell &cell : cells_) {
        cell.is_shared = cell.address != 0 && is_shared_now(cell);
        count_ += cell.is_shared;
    }
}

}  // namespace stress
