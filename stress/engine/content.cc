#include "engine/content.h"

#include <cstring>

#include "engine/rng.h"

namespace stress {
namespace {

using Word [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
constexpr std::size_t kWordBytes = sizeof(Word);

std::uint64_t word_at(std::uint64_t generation, std::size_t index)
{
    return splitmix_next(generation) + index * kStep;
}

bool bytes_hold(const unsigned char *bytes, std::size_t from, std::size_t to, std::uint64_t generation)
{
    for (std::size_t i = from; i < to; ++i)
        if (bytes[i] != content_byte(generation, i)) return false;
    return true;
}

}  // namespace

void content_fill(void *start, std::size_t size_bytes, std::uint64_t generation)
{
    Word *words = static_cast<Word *>(start);
    const std::size_t count = size_bytes / kWordBytes;
    std::uint64_t value = word_at(generation, 0);
    for (std::size_t i = 0; i < count; ++i) {
        words[i] = value;
        value += kStep;
    }
    std::memcpy(static_cast<unsigned char *>(start) + count * kWordBytes, &value, size_bytes % kWordBytes);
}

bool content_holds(const void *start, std::size_t from_bytes, std::size_t to_bytes, std::uint64_t generation)
{
    const auto *bytes = static_cast<const unsigned char *>(start);
    const std::size_t first = (from_bytes + kWordBytes - 1) / kWordBytes;
    const std::size_t last = to_bytes / kWordBytes;
    if (first >= last) return bytes_hold(bytes, from_bytes, to_bytes, generation);

    const Word *words = static_cast<const Word *>(start);
    std::uint64_t value = word_at(generation, first);
    std::uint64_t difference = 0;
    for (std::size_t i = first; i < last; ++i) {
        difference |= words[i] ^ value;
        value += kStep;
    }
    return difference == 0 && bytes_hold(bytes, from_bytes, first * kWordBytes, generation) &&
           bytes_hold(bytes, last * kWordBytes, to_bytes, generation);
}

std::size_t content_first_difference(const void *start, std::size_t from_bytes, std::size_t to_bytes,
                                     std::uint64_t generation)
{
    const auto *bytes = static_cast<const unsigned char *>(start);
    for (std::size_t i = from_bytes; i < to_bytes; ++i)
        if (bytes[i] != content_byte(generation, i)) return i;
    return kNoDifference;
}

unsigned char content_byte(std::uint64_t generation, std::size_t offset_bytes)
{
    const std::uint64_t value = word_at(generation, offset_bytes / kWordBytes);
    unsigned char bytes[kWordBytes];
    std::memcpy(bytes, &value, kWordBytes);
    return bytes[offset_bytes % kWordBytes];
}

std::size_t content_first_nonzero(const void *start, std::size_t size_bytes)
{
    const Word *words = static_cast<const Word *>(start);
    const auto *bytes = static_cast<const unsigned char *>(start);
    const std::size_t count = size_bytes / kWordBytes;
    std::uint64_t any = 0;
    for (std::size_t i = 0; i < count; ++i) any |= words[i];
    for (std::size_t i = count * kWordBytes; i < size_bytes; ++i) any |= bytes[i];
    if (any == 0) return kNoDifference;
    std::size_t offset = 0;
    while (offset < size_bytes && bytes[offset] == 0) ++offset;
    return offset;
}

}  // namespace stress
