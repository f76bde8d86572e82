#include "order/run/sharing.h"

#include <utility>

namespace stress::order {
namespace {

constexpr std::uintptr_t kGranuleBytes = 16;

} // namespace

void Sharing::begin()
{
    ++run_;
    has_grown_ = false;
}

void Sharing::grow()
{
    std::vector<Entry> old(table_.size() * 2);
    std::swap(old, table_);
    used_ = 0;
    for (const Entry &entry : old) {
        if (entry.granule == 0 || (entry.run != run_ && !entry.is_shared)) continue;
        find(entry.granule) = entry;
        ++used_;
    }
}

Sharing::Entry &Sharing::find(std::uintptr_t granule)
{
    const std::size_t mask = table_.size() - 1;
    std::size_t at = (granule * 0x9E3779B97F4A7C15ULL >> 20) & mask;
    while (table_[at].granule != 0 && table_[at].granule != granule) at = (at + 1) & mask;
    return table_[at];
}

bool Sharing::touch_one(std::uintptr_t granule, bool is_write, unsigned thread)
{
    Entry *entry = &find(granule);
    if (entry->granule == 0) {
        if (++used_ > table_.size() / 2) {
            grow();
            entry = &find(granule);
            ++used_;
        }
        *entry = {granule, run_, 0, 0, false};
    }
    if (entry->is_shared) return true;
    if (entry->run != run_) {
        entry->run = run_;
        entry->readers = entry->writers = 0;
    }
    const auto self = static_cast<std::uint16_t>(1U << thread);
    (is_write ? entry->writers : entry->readers) |= self;
    const auto users = static_cast<std::uint16_t>(entry->readers | entry->writers);
    if (users == self || entry->writers == 0) return false;
    entry->is_shared = true;
    shared_.push_back(granule);
    has_grown_ = true;
    return false;
}

bool Sharing::touch(const volatile void *address, std::size_t bytes, bool is_write, unsigned thread)
{
    if (bytes == 0) return false;
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    bool is_shared = false;
    for (std::uintptr_t granule = start / kGranuleBytes; granule <= (start + bytes - 1) / kGranuleBytes; ++granule)
        is_shared |= touch_one(granule, is_write, thread);
    return is_shared;
}

void Sharing::keep_first(std::size_t count)
{
    while (shared_.size() > count) {
        find(shared_.back()).is_shared = false;
        shared_.pop_back();
    }
}

} // namespace stress::order
