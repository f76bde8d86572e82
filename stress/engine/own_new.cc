// operator new of the hakmem-stress program: a bump allocator on mapped memory, never reused.
//
// Options, reports and JSON use C++ strings and maps. They must neither disturb the malloc under test
// nor be disturbed by it: a subject that hands out overlapping blocks would garble the very report that
// says so. The scenarios never come here; what is used in a run is well under a megabyte.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace {

constexpr std::size_t kRegionBytes = std::size_t{1} << 30;  // reserved; touched as far as used

char *region()
{
    static char *const start = [] {
        void *mapped =
            mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) _exit(2);
        return static_cast<char *>(mapped);
    }();
    return start;
}

std::atomic<std::size_t> used_bytes{0};

void *own_take(std::size_t size_bytes, std::size_t align_bytes)
{
    if (align_bytes < 16) align_bytes = 16;
    // relaxed: the sum alone divides the region; nothing is published.
    const std::size_t offset = used_bytes.fetch_add(size_bytes + align_bytes, std::memory_order_relaxed);
    if (size_bytes > kRegionBytes || offset > kRegionBytes - size_bytes - align_bytes) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(region()) + offset;
    return reinterpret_cast<void *>((address + align_bytes - 1) & ~(align_bytes - 1));
}

}  // namespace

void *operator new(std::size_t size) { return own_take(size, 0); }
void *operator new[](std::size_t size) { return own_take(size, 0); }
void *operator new(std::size_t size, std::align_val_t align) { return own_take(size, static_cast<std::size_t>(align)); }
void *operator new[](std::size_t size, std::align_val_t align)
{
    return own_take(size, static_cast<std::size_t>(align));
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return own_take(size, 0); }
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept { return own_take(size, 0); }

void operator delete(void *) noexcept {}
void operator delete[](void *) noexcept {}
void operator delete(void *, std::size_t) noexcept {}
void operator delete[](void *, std::size_t) noexcept {}
void operator delete(void *, std::align_val_t) noexcept {}
void operator delete[](void *, std::align_val_t) noexcept {}
void operator delete(void *, std::size_t, std::align_val_t) noexcept {}
void operator delete[](void *, std::size_t, std::align_val_t) noexcept {}
void operator delete(void *, const std::nothrow_t &) noexcept {}
void operator delete[](void *, const std::nothrow_t &) noexcept {}
