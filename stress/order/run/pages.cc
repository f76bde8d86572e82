#include "order/run/pages.h"

#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "order/run/system.h"

namespace stress::order {
namespace {

constexpr std::size_t kLineBytes = 64, kPageBytes = 4096;
constexpr int kClosed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::uintptr_t page_of(std::uintptr_t address)
{
    return address & ~(kPageBytes - 1);
}

std::size_t whole_pages(std::size_t bytes)
{
    return (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

long map_fixed(std::uintptr_t start, std::size_t bytes, int protection, int flags, long file = -1, long offset = 0)
{
    return system_call(SYS_mmap, static_cast<long>(start), static_cast<long>(bytes), protection, flags | MAP_FIXED,
                       file, offset);
}

const unsigned char *content(std::uintptr_t address)
{
    return reinterpret_cast<const unsigned char *>(address);
}

bool is_zero(const unsigned char *page)
{
    return page[0] == 0 && std::memcmp(page, page + 1, kPageBytes - 1) == 0;
}

} // namespace

bool Pages::reserve()
{
    const long start = system_call(SYS_mmap, 0, static_cast<long>(kArenas * kArenaBytes), PROT_NONE, kClosed, -1, 0);
    if (start < 0) return false;
    base_ = static_cast<std::uintptr_t>(start);
    for (unsigned i = 0; i < kArenas; ++i) next_[i] = kept_next_[i] = base_ + i * kArenaBytes;
    return true;
}

bool Pages::is_kept(std::uintptr_t address) const
{
    if (is_arena(address)) return address < kept_next_[arena_of(address)];
    return std::any_of(variables_.begin(), variables_.end(),
                       [&](Range range) { return address - range.start < range.bytes; });
}

bool Pages::is_gone(std::uintptr_t start, std::size_t bytes) const
{
    if (!is_taken_ || !is_arena(start) || start < kept_next_[arena_of(start)]) return false;
    const auto behind = run_mapped_.lower_bound(start + bytes);
    return behind == run_mapped_.begin() || std::prev(behind)->second.end <= start;
}

// Calls this with each page of the range that has memory.
template <class Use> void Pages::each_resident(Range range, Use use) const
{
    constexpr std::size_t kChunkBytes = std::size_t{1} << 30;
    std::vector<unsigned char> resident(kChunkBytes / kPageBytes);
    for (std::uintptr_t start = range.start; start < range.end(); start += kChunkBytes) {
        const std::size_t bytes = std::min(kChunkBytes, range.end() - start);
        const long result = system_call(SYS_mincore, static_cast<long>(start), static_cast<long>(bytes),
                                        reinterpret_cast<long>(resident.data()), 0, 0, 0);
        if (result != 0) continue;
        for (std::size_t i = 0; i < whole_pages(bytes) / kPageBytes; ++i)
            if ((resident[i] & 1) != 0) use(start + i * kPageBytes);
    }
}

// Calls this with each page of the state that take() keeps, if it has memory and can be read.
template <class Use> void Pages::each_kept_page(Use use) const
{
    for (const Range range : variables_) {
        const std::uintptr_t start = page_of(range.start);
        for (std::uintptr_t page = start; page < range.end(); page += kPageBytes) use(page);
    }
    for (const auto &[start, mapped] : mapped_)
        if ((mapped.protection & PROT_READ) != 0) each_resident({start, mapped.end - start}, use);
}

void Pages::take()
{
    std::copy(std::begin(next_), std::end(next_), kept_next_);
    is_taken_ = true;
    each_kept_page([&](std::uintptr_t page) {
        if (!is_zero(content(page))) pages_[page].assign(content(page), content(page) + kPageBytes);
    });
}

void Pages::before_write(const volatile void *address, std::size_t bytes)
{
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    if (!is_taken_ || bytes == 0 || !is_kept(start)) return;
    for (std::uintptr_t line = start / kLineBytes; line <= (start + bytes - 1) / kLineBytes; ++line) {
        std::uint32_t &run = lines_[line];
        if (run == run_) continue;
        run = run_;
        save(line * kLineBytes, kLineBytes);
    }
}

void Pages::save(std::uintptr_t start, std::size_t bytes)
{
    saved_.push_back({start, static_cast<std::uint32_t>(bytes), bytes_.size()});
    bytes_.insert(bytes_.end(), content(start), content(start) + bytes);
}

std::uint64_t Pages::digest() const
{
    std::uint64_t digest = 0;
    const auto add = [&](std::uintptr_t start, std::size_t bytes) { // in any order
        std::uint64_t hash = start;
        for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ content(start)[i]) * 0x100000001B3ULL;
        digest += hash ^ hash >> 32;
    };
    for (const auto &[line, run] : lines_) {
        const std::uintptr_t start = line * kLineBytes;
        const auto kept = pages_.find(page_of(start));
        static const unsigned char zero[kLineBytes] = {};
        const unsigned char *before = kept == pages_.end() ? zero : kept->second.data() + start % kPageBytes;
        if (run == run_ && std::memcmp(content(start), before, kLineBytes) != 0) add(start, kLineBytes);
    }
    for (const auto &[start, mapped] : run_mapped_)
        if ((mapped.protection & PROT_READ) != 0)
            each_resident({start, mapped.end - start}, [&](std::uintptr_t page) {
                if (!is_zero(content(page))) add(page, kPageBytes);
            });
    return digest;
}

void Pages::restore()
{
    for (const Range range : changed_) map_fixed(range.start, range.bytes, PROT_READ | PROT_WRITE, kClosed);
    for (auto saved = saved_.rbegin(); saved != saved_.rend(); ++saved)
        std::memcpy(reinterpret_cast<void *>(saved->start), bytes_.data() + saved->at, saved->bytes);
    for (const std::uintptr_t page : whole_) {
        if (const auto kept = pages_.find(page); kept != pages_.end())
            std::memcpy(reinterpret_cast<void *>(page), kept->second.data(), kPageBytes);
        else std::memset(reinterpret_cast<void *>(page), 0, kPageBytes);
    }
    for (const Range range : changed_) { // as it was, or closed where nothing was mapped
        system_call(SYS_mprotect, static_cast<long>(range.start), static_cast<long>(range.bytes), PROT_NONE, 0, 0, 0);
        for (const auto &[start, mapped] : mapped_) {
            const std::uintptr_t from = std::max(start, range.start), to = std::min(mapped.end, range.end());
            if (from < to)
                system_call(SYS_mprotect, static_cast<long>(from), static_cast<long>(to - from), mapped.protection, 0,
                            0, 0);
        }
    }
    for (unsigned i = 0; i < kArenas; ++i) {
        if (next_[i] != kept_next_[i]) map_fixed(kept_next_[i], next_[i] - kept_next_[i], PROT_NONE, kClosed);
        next_[i] = kept_next_[i];
    }
    changed_.clear();
    run_mapped_.clear();
    saved_.clear();
    bytes_.clear();
    ++run_;
}

bool Pages::is_restored()
{
    const std::size_t before = whole_.size();
    each_kept_page([&](std::uintptr_t page) {
        const auto kept = pages_.find(page);
        const bool is_same = kept == pages_.end() ? is_zero(content(page))
                                                  : std::memcmp(content(page), kept->second.data(), kPageBytes) == 0;
        if (!is_same) whole_.push_back(page);
    });
    return whole_.size() == before;
}

// --- calls --------------------------------------------------------------------------------------------------

std::uintptr_t Pages::place(unsigned thread, std::size_t bytes)
{
    const unsigned arena = std::min(thread, kArenas - 1);
    if (bytes > base_ + (arena + 1) * kArenaBytes - next_[arena]) return 0;
    const std::uintptr_t start = next_[arena];
    next_[arena] += bytes;
    return start;
}

void Pages::note_mapped(Mappings &all, std::uintptr_t start, std::size_t bytes, int protection)
{
    const std::uintptr_t end = start + bytes;
    auto at = all.upper_bound(start);
    if (at != all.begin()) --at;
    while (at != all.end() && at->first < end) {
        const auto [from, old] = *at;
        if (old.end <= start) {
            ++at;
            continue;
        }
        at = all.erase(at);
        if (from < start) all[from] = {start, old.protection};
        if (end < old.end) at = all.insert_or_assign(end, Mapped{old.end, old.protection}).first;
    }
    if (protection >= 0) all[start] = {end, protection};
}

// The call is about to change these pages: their protection (below 0: nothing is mapped any more), their content.
void Pages::change(std::uintptr_t start, std::size_t bytes, int protection, bool drops)
{
    if (!is_taken_) return note_mapped(mapped_, start, bytes, protection);
    if (!is_arena(start)) return;
    if (start >= kept_next_[arena_of(start)]) {
        if (drops) note_mapped(run_mapped_, start, bytes, protection);
        return;
    }
    bytes = std::min(bytes, kept_next_[arena_of(start)] - start);
    for (const auto &[from, mapped] : mapped_) {
        const std::uintptr_t first = std::max(from, start), last = std::min(mapped.end, start + bytes);
        if (first >= last || (mapped.protection & PROT_READ) == 0) continue;
        each_resident({first, last - first}, [&](std::uintptr_t page) {
            for (const Range &before : changed_)
                if (page - before.start < before.bytes) return; // it was saved then
            save(page, kPageBytes);
        });
    }
    if (drops) changed_.push_back({start, bytes});
}

long Pages::map(unsigned thread, const long (&arguments)[6])
{
    const auto bytes = whole_pages(static_cast<std::size_t>(arguments[1]));
    const auto protection = static_cast<int>(arguments[2]), flags = static_cast<int>(arguments[3]);
    auto start = static_cast<std::uintptr_t>(arguments[0]);
    if (bytes == 0) return -EINVAL;
    // A hint far from the arenas is a place of the malloc's choice, and free. A hint near them, also the aligned address below
    // the first one, may not be.
    const bool is_near = start + kArenaBytes - base_ < (kArenas + 1) * kArenaBytes;
    const bool is_chosen = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0 || (start != 0 && !is_near);
    if (!is_chosen) start = place(thread, bytes);
    if (start == 0) return -ENOMEM;
    change(start, bytes, protection, true);
    return map_fixed(start, bytes, protection, flags & ~MAP_FIXED_NOREPLACE, arguments[4], arguments[5]);
}

long Pages::remap(unsigned thread, const long (&arguments)[6])
{
    const auto old = static_cast<std::uintptr_t>(arguments[0]);
    const auto old_bytes = whole_pages(static_cast<std::size_t>(arguments[1]));
    const auto bytes = whole_pages(static_cast<std::size_t>(arguments[2]));
    const auto flags = static_cast<int>(arguments[3]);
    if (bytes == 0) return -EINVAL;
    if (bytes <= old_bytes && (flags & MREMAP_FIXED) == 0) {
        if (bytes < old_bytes) {
            change(old + bytes, old_bytes - bytes, -1, true);
            map_fixed(old + bytes, old_bytes - bytes, PROT_NONE, kClosed);
        }
        return arguments[0];
    }
    if ((flags & MREMAP_MAYMOVE) == 0) return -ENOMEM;
    const std::uintptr_t start =
        (flags & MREMAP_FIXED) != 0 ? static_cast<std::uintptr_t>(arguments[4]) : place(thread, bytes);
    if (start == 0) return -ENOMEM;
    change(old, old_bytes, -1, true);
    change(start, bytes, PROT_READ | PROT_WRITE, true);
    const long result = system_call(SYS_mremap, arguments[0], static_cast<long>(old_bytes), static_cast<long>(bytes),
                                    MREMAP_MAYMOVE | MREMAP_FIXED, static_cast<long>(start), 0);
    if (result >= 0) map_fixed(old, old_bytes, PROT_NONE, kClosed);
    return result;
}

long Pages::call(unsigned thread, long number, const long (&arguments)[6])
{
    const auto start = static_cast<std::uintptr_t>(arguments[0]);
    const auto bytes = whole_pages(static_cast<std::size_t>(arguments[1]));
    if (number == SYS_mmap) return map(thread, arguments);
    if (is_arena(start)) {
        switch (number) {
        case SYS_munmap:
            change(start, bytes, -1, true);
            return std::min(map_fixed(start, bytes, PROT_NONE, kClosed), 0L); // which returns the address
        case SYS_mremap: return remap(thread, arguments);
        case SYS_mprotect: change(start, bytes, static_cast<int>(arguments[2]), true); break;
        case SYS_madvise:
            if (is_taken_) change(start, bytes, 0, false);
            break;
        default: break;
        }
    }
    return system_call(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

} // namespace stress::order
