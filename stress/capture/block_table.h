// From the address of a live block to its slot: open addressing with linear probing, which closes gaps on removal. It
// grows to twice the number of live blocks. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stress {

class BlockTable {
  public:
    // Addresses are not 0.
    void put(std::uint64_t address, std::uint32_t slot)
    {
        if (2 * (count_ + 1) > entries_.size()) grow();
        insert(address, slot);
        ++count_;
    }

    // Removes the entry and returns its slot, or ~0.
    std::uint32_t take(std::uint64_t address)
    {
        if (address == 0) return ~0U;
        std::size_t at = home(address);
        for (; entries_[at].address != address; at = next(at))
            if (entries_[at].address == 0) return ~0U;
        const std::uint32_t slot = entries_[at].slot;
        // Moves later entries into the gap if they may be there.
        for (std::size_t from = next(at); entries_[from].address != 0; from = next(from)) {
            const std::size_t wanted = home(entries_[from].address);
            if (((from - wanted) & mask()) < ((from - at) & mask())) continue;
            entries_[at] = entries_[from];
            at = from;
        }
        entries_[at] = {};
        --count_;
        return slot;
    }

  private:
    struct Entry {
        std::uint64_t address = 0;
        std::uint32_t slot = 0;
    };

    std::size_t mask() const { return entries_.size() - 1; }
    std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
    std::size_t home(std::uint64_t address) const { return (address * 0x9e3779b97f4a7c15ULL >> 20) & mask(); }

    void insert(std::uint64_t address, std::uint32_t slot)
    {
        std::size_t at = home(address);
        while (entries_[at].address != 0) at = next(at);
        entries_[at] = {address, slot};
    }

    void grow()
    {
        std::vector<Entry> old(2 * entries_.size());
        old.swap(entries_);
        for (const Entry &entry : old)
            if (entry.address != 0) insert(entry.address, entry.slot);
    }

    std::vector<Entry> entries_ = std::vector<Entry>(1024);
    std::size_t count_ = 0;
};

} // namespace stress
