// operator new of the hakmem-stress program: a bump allocator on mapped memory. It reuses freed memory only after
// own_new_reuse().
//
// Options, reports and JSON use C++ strings and maps. They must neither disturb the malloc under test nor be disturbed
// by it: a subject that hands out overlapping blocks would garble the report of that very fault. Scenarios never
// allocate here; a run uses well under a megabyte.
#include "engine/subject/own_new.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

namespace {

constexpr std::size_t kRegionBytes = std::size_t{1} << 30;  // reserved; only the used part is touched

char *region()
{
    static char *const start = [] {
        void *mapped =
            mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) {
            static const char text[] =
                "hakmem-stress: no address space for the program itself (1 GiB); raise ulimit -v\n";
            _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 3 : 2);
        }
        return static_cast<char *>(mapped);
    }();
    return start;
}

std::atomic<std::size_t> used_bytes{0};

// Header before each block. `list` is log2 of the block's bytes, or 0 for a block that is never reused.
struct alignas(16) Header {
    std::size_t list;
    Header *next;
};

// Not atomic: only a process with one thread turns reuse on.
bool reuse = false;
Header *lists[64];

void *bump(std::size_t size_bytes, std::size_t align_bytes)
{
    // relaxed: only the sum matters, since it divides the region; nothing is published.
    const std::size_t offset = used_bytes.fetch_add(size_bytes + align_bytes, std::memory_order_relaxed);
    if (size_bytes > kRegionBytes || offset > kRegionBytes - size_bytes - align_bytes) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(region()) + offset;
    return reinterpret_cast<void *>((address + align_bytes - 1) & ~(align_bytes - 1));
}

void *own_take(std::size_t size_bytes, std::size_t align_bytes)
{
    if (align_bytes < 16) align_bytes = 16;
    const bool listed = reuse && align_bytes == 16 && size_bytes <= kRegionBytes / 2;
    const std::size_t rounded = (size_bytes - (size_bytes != 0)) | 15;
    const std::size_t list = listed ? static_cast<std::size_t>(std::bit_width(rounded)) : 0;
    Header *header = listed ? lists[list] : nullptr;
    if (header != nullptr) {
        lists[list] = header->next;
        return header + 1;
    }
    if (listed) size_bytes = std::size_t{1} << list;
    if (size_bytes > kRegionBytes) throw std::bad_alloc();
    // The header fits into the alignment bytes before the block.
    auto *start = static_cast<char *>(bump(size_bytes + align_bytes, align_bytes));
    header = reinterpret_cast<Header *>(start + align_bytes) - 1;
    header->list = list;
    return header + 1;
}

void *own_take_or_null(std::size_t size_bytes, std::size_t align_bytes) noexcept
{
    try {
        return own_take(size_bytes, align_bytes);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void own_give(void *block)
{
    if (!reuse || block == nullptr) return;
    Header *header = static_cast<Header *>(block) - 1;
    if (header->list == 0) return;
    header->next = lists[header->list];
    lists[header->list] = header;
}

}  // namespace

namespace stress {

void own_new_reuse()
{
    reuse = true;
}

}  // namespace stress

void *operator new(std::size_t size)
{
    return own_take(size, 0);
}
void *operator new[](std::size_t size)
{
    return own_take(size, 0);
}
void *operator new(std::size_t size, std::align_val_t align)
{
    return own_take(size, static_cast<std::size_t>(align));
}
void *operator new[](std::size_t size, std::align_val_t align)
{
    return own_take(size, static_cast<std::size_t>(align));
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
    return own_take_or_null(size, 0);
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept
{
    return own_take_or_null(size, 0);
}
void *operator new(std::size_t size, std::align_val_t align, const std::nothrow_t &) noexcept
{
    return own_take_or_null(size, static_cast<std::size_t>(align));
}
void *operator new[](std::size_t size, std::align_val_t align, const std::nothrow_t &) noexcept
{
    return own_take_or_null(size, static_cast<std::size_t>(align));
}

void operator delete(void *block) noexcept
{
    own_give(block);
}
void operator delete[](void *block) noexcept
{
    own_give(block);
}
void operator delete(void *block, std::size_t) noexcept
{
    own_give(block);
}
void operator delete[](void *block, std::size_t) noexcept
{
    own_give(block);
}
void operator delete(void *block, std::align_val_t) noexcept
{
    own_give(block);
}
void operator delete[](void *block, std::align_val_t) noexcept
{
    own_give(block);
}
void operator delete(void *block, std::size_t, std::align_val_t) noexcept
{
    own_give(block);
}
void operator delete[](void *block, std::size_t, std::align_val_t) noexcept
{
    own_give(block);
}
void operator delete(void *block, const std::nothrow_t &) noexcept
{
    own_give(block);
}
void operator delete[](void *block, const std::nothrow_t &) noexcept
{
    own_give(block);
}
void operator delete(void *block, std::align_val_t, const std::nothrow_t &) noexcept
{
    own_give(block);
}
void operator delete[](void *block, std::align_val_t, const std::nothrow_t &) noexcept
{
    own_give(block);
}
