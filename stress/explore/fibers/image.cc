#include "explore/fibers/image.h"

#include <cstring>

#include "explore/inside/arena_memory.h"
#include "explore/fibers/zero_page.h"

// Symbols of state.ld, and the linker's names for the ends of a section.
extern "C" {
extern unsigned char hak_data_begin[], hak_data_end[], hak_bss_begin[], hak_bss_end[];
extern unsigned char __start_hak_fiber[], __stop_hak_fiber[];
}

namespace stress {
namespace {

using Word [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;

// Not memcpy, not even by the compiler's choice (machine.cmake), because a sanitizer would check the memory that it
// keeps between variables.
void copy(unsigned char *to, const unsigned char *from, std::size_t bytes)
{
    const std::size_t count = bytes / sizeof(Word);
    for (std::size_t i = 0; i < count; ++i) reinterpret_cast<Word *>(to)[i] = reinterpret_cast<const Word *>(from)[i];
    for (std::size_t i = count * sizeof(Word); i < bytes; ++i) to[i] = from[i];
}

std::vector<unsigned char> kept(const unsigned char *begin, const unsigned char *end)
{
    std::vector<unsigned char> bytes(static_cast<std::size_t>(end - begin));
    copy(bytes.data(), begin, bytes.size());
    return bytes;
}

unsigned char *pointer(std::uintptr_t address)
{
    return reinterpret_cast<unsigned char *>(address);
}

} // namespace

void Image::keep_pages(unsigned char *start, unsigned char *end)
{
    for (unsigned char *page = start; page < end; page += kPageBytes) {
        if (stress_page_is_zero(page)) continue;
        pages_.emplace_back();
        pages_.back().start = page;
        copy(pages_.back().content, page, kPageBytes);
    }
}

void Image::take()
{
    arena_statics(reinterpret_cast<std::uintptr_t>(hak_bss_begin), reinterpret_cast<std::uintptr_t>(hak_bss_end));
    books_ = *arena_now();
    data_ = kept(hak_data_begin, hak_data_end);
    own_ = kept(__start_hak_fiber, __stop_hak_fiber);
    pages_.clear();
    keep_pages(hak_bss_begin, hak_bss_end);
    for (std::uint32_t i = 0; i < books_.touched_count; ++i)
        keep_pages(pointer(books_.touched[i].start), pointer(books_.touched[i].end));
}

void Image::restore() const
{
    arena_books *now = arena_now();
    arena_zero();
    for (const Page &page : pages_) copy(page.start, page.content, kPageBytes);
    copy(hak_data_begin, data_.data(), data_.size());
    copy(__start_hak_fiber, own_.data(), own_.size());
    std::memcpy(now->reserved, books_.reserved, books_.reserved_count * sizeof *now->reserved);
    std::memcpy(now->touched, books_.touched, books_.touched_count * sizeof *now->touched);
    now->reserved_count = books_.reserved_count;
    now->touched_count = books_.touched_count;
    arena_run(true);
}

std::size_t Image::bytes() const
{
    return data_.size() + own_.size() + pages_.size() * kPageBytes;
}

} // namespace stress
