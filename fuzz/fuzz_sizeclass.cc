// fuzz_sizeclass: the laws of alloc/base/sizeclass.h, at sizes and alignments from the input. They are checked against
// a slow computation that does not use the table but lists the classes as the design and the header describe them.
//
// Input: any number of 5 bytes: a size (4 bytes, little-endian) and an alignment (log2, one byte). Both are folded into
// range.
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fuzz/find.h"

extern "C" {
#include "base/sizeclass.h"
}

namespace {

struct Class {
    std::uint32_t index, bytes;
    bool aligned_only; // no plain request of any size gets this class
};

// 16 to 1024 in steps of 16; then 8 for each doubling up to 32 KiB; and 128 to 1024 in steps of 128 as aligned classes.
std::vector<Class> every_class()
{
    std::vector<Class> classes;
    std::uint32_t index = 1;
    for (std::uint32_t bytes = 16; bytes <= 1024; bytes += 16) classes.push_back({index++, bytes, false});
    for (std::uint32_t base = 1024; base < 32768; base *= 2)
        for (std::uint32_t eighth = 1; eighth <= 8; ++eighth)
            classes.push_back({index++, base + base / 8 * eighth, false});
    for (std::uint32_t bytes = 128; bytes <= 1024; bytes += 128) classes.push_back({index++, bytes, true});
    return classes;
}

const std::vector<Class> &classes()
{
    static const std::vector<Class> all = every_class();
    return all;
}

// Whether every block of the class is at a multiple of align. Slabs of plain classes up to 1 KiB are coloured, so a
// class at a multiple of 128 begins only at a multiple of 64.
bool stands_right(const Class &one, std::uint32_t align)
{
    const bool coloured = !one.aligned_only && one.bytes <= 1024 && one.bytes % 128 == 0;
    return one.bytes % align == 0 && (align <= 64 ? !one.aligned_only : !coloured);
}

// For each size from 0 on, the smallest class that holds it at this alignment.
std::vector<const Class *> classes_for(std::uint32_t align)
{
    std::vector<const Class *> wanted(SMALL_BYTES_MAX + 1, nullptr);
    for (const Class &one : classes()) {
        if (!stands_right(one, align)) continue;
        for (std::uint32_t size = one.bytes + 1; size-- > 0;)
            if (wanted[size] == nullptr || one.bytes < wanted[size]->bytes) wanted[size] = &one;
    }
    return wanted;
}

const Class *class_for(std::uint32_t size, std::uint32_t align)
{
    static std::vector<const Class *> wanted[16]; // indexed by the logarithm of the alignment
    std::vector<const Class *> &row = wanted[std::countr_zero(align)];
    if (row.empty()) row = classes_for(align);
    return row[size];
}

std::string text_of(const char *what, std::uint64_t value)
{
    return std::string(what) + " " + std::to_string(value);
}

void check_size(std::uint32_t size)
{
    const std::uint32_t index = sizeclass_of(size), bytes = sizeclass_bytes(index);
    fuzz::must_hold(index < CLASS_COUNT, "class_range", text_of("class", index) + text_of(" for size", size));
    fuzz::must_hold(bytes >= size, "class_holds_size", text_of("blocks of", bytes) + text_of(" for size", size));
    fuzz::must_hold(sizeclass_of(bytes) == index, "class_exact", text_of("class", index) + text_of(" of size", bytes));
    if (size == 0) {
        fuzz::must_hold(index == CLASS_EMPTY, "class_of_nothing", text_of("class", index));
        return;
    }
    fuzz::must_hold(sizeclass_of(size - 1) <= index, "class_monotonic", text_of("at size", size));
    if (size < SMALL_BYTES_MAX)
        fuzz::must_hold(sizeclass_of(size + 1) >= index, "class_monotonic", text_of("at size", size));
    const Class *wanted = class_for(size, 1);
    fuzz::must_hold(wanted != nullptr && wanted->index == index && wanted->bytes == bytes, "class_of_size",
                    text_of("class", index) + text_of(" of", bytes) + text_of(" bytes for size", size));
}

void check_aligned(std::uint32_t size, std::uint32_t align)
{
    const std::uint32_t index = sizeclass_of_aligned(size, align), bytes = sizeclass_bytes(index);
    const std::string text =
        text_of("class", index) + text_of(" of", bytes) + text_of(" bytes for size", size) + text_of(" align", align);
    fuzz::must_hold(index > CLASS_EMPTY && index < CLASS_COUNT, "aligned_class_range", text);
    fuzz::must_hold(bytes >= size && bytes % align == 0, "aligned_class_holds_size", text);
    const Class *wanted = class_for(size == 0 ? 1 : size, align);
    fuzz::must_hold(wanted != nullptr && wanted->index == index, "aligned_class_of_size", text);
    fuzz::must_hold(sizeclass_colours(index) == 1 || align <= CACHE_LINE_BYTES, "aligned_class_colours", text);
}

void check_class(std::uint32_t index)
{
    const Class &one = classes()[index - 1];
    const std::string text = text_of("class", index);
    const std::uint32_t bytes = sizeclass_bytes(index), pages = sizeclass_slab_pages(index);
    fuzz::must_hold(bytes == one.bytes, "class_bytes", text);
    fuzz::must_hold(bytes % GRANULE_BYTES == 0, "class_granule", text);
    fuzz::must_hold(std::uint64_t{pages} * PAGE_BYTES / bytes >= SLAB_BLOCKS_MIN, "slab_blocks", text);
    const std::uint32_t shorter = pages == 8 ? 4 : pages == 4 ? 1 : 0;
    fuzz::must_hold(shorter != 0 || pages == 1, "slab_pages", text);
    fuzz::must_hold(shorter * PAGE_BYTES / bytes < SLAB_BLOCKS_MIN, "slab_pages", text);
    const std::uint32_t credit = sizeclass_credit(index), grown = sizeclass_credit_grown(index);
    fuzz::must_hold(credit >= CREDIT_MIN && credit <= CREDIT_MAX && grown >= credit && grown <= CREDIT_GROWN_MAX,
                    "class_credit", text);
    for (std::uint32_t blocks = credit; blocks <= grown; blocks *= 2) {
        const std::uint32_t lists = sizeclass_magazines(index, blocks);
        fuzz::must_hold(lists >= MAGAZINES_MIN && lists <= MAGAZINES_MAX, "class_magazines", text);
    }
    const std::uint32_t staged = sizeclass_stage_blocks(index);
    fuzz::must_hold(staged >= 1 && staged <= STAGE_BLOCKS_MAX, "class_stage", text);
    fuzz::must_hold(staged == 1 || staged * bytes <= STAGE_BYTES_MAX, "class_stage", text);
    fuzz::must_hold(sizeclass_colours(index) <= 16, "class_colours", text);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    fuzz::must_hold(classes().size() + 1 == CLASS_COUNT, "class_count", text_of("classes", CLASS_COUNT));
    for (; size >= 5; data += 5, size -= 5) {
        std::uint32_t wanted = 0;
        std::memcpy(&wanted, data, sizeof wanted);
        wanted %= SMALL_BYTES_MAX + 1;
        check_size(wanted);
        check_aligned(wanted, 1U << data[4] % 16);
        check_class(sizeclass_of_aligned(wanted, 1U << data[4] % 16));
    }
    return 0;
}
