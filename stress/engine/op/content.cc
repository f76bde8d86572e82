#include "engine/op/content.h"

#include <algorithm>
#include <cstring>

#include "engine/base/build.h"
#include "engine/base/rng.h"
#include "engine/op/content_parts.h"

namespace stress {
namespace {

using Word [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
constexpr std::size_t kWordBytes = sizeof(Word);

std::uint64_t word_at(std::uint64_t generation, std::size_t index)
{
    return splitmix_next(generation) + index * kStep;
}

// The loops over words. `value` is the content of words[0].
STRESS_WIDE_VECTORS void fill_words(Word *words, std::size_t count, std::uint64_t value)
{
    for (std::size_t i = 0; i < count; ++i) words[i] = value + i * kStep;
}

STRESS_WIDE_VECTORS std::uint64_t words_differ(const Word *words, std::size_t count, std::uint64_t value)
{
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < count; ++i) difference |= words[i] ^ (value + i * kStep);
    return difference;
}

STRESS_WIDE_VECTORS std::uint64_t words_any(const Word *words, std::size_t count)
{
    std::uint64_t any = 0;
    for (std::size_t i = 0; i < count; ++i) any |= words[i];
    return any;
}

// Fills [from, to); `from` is a multiple of 8.
void fill_part(void *start, std::size_t from, std::size_t to, std::uint64_t generation)
{
    unsigned char *bytes = static_cast<unsigned char *>(start) + from;
    const std::size_t count = (to - from) / kWordBytes;
    const std::uint64_t value = word_at(generation, from / kWordBytes);
    fill_words(reinterpret_cast<Word *>(bytes), count, value);
    const std::uint64_t last = value + count * kStep;
    std::memcpy(bytes + count * kWordBytes, &last, (to - from) % kWordBytes);
}

bool part_holds(const void *start, std::size_t from, std::size_t to, std::uint64_t generation)
{
    const unsigned char *bytes = static_cast<const unsigned char *>(start) + from;
    const std::size_t count = (to - from) / kWordBytes, rest = (to - from) % kWordBytes;
    const std::uint64_t value = word_at(generation, from / kWordBytes);
    std::uint64_t difference = words_differ(reinterpret_cast<const Word *>(bytes), count, value);
    if (rest != 0) {
        const std::uint64_t last = value + count * kStep;
        std::uint64_t found = last;
        std::memcpy(&found, bytes + count * kWordBytes, rest);
        difference |= found ^ last;
    }
    return difference == 0;
}

}  // namespace

void content_fill(void *start, std::size_t size_bytes, std::uint64_t generation)
{
    content_parts(size_bytes, generation, [&](std::size_t from, std::size_t to) {
        fill_part(start, from, to, generation);
        return true;
    });
}

bool content_holds(const void *start, std::size_t size_bytes, std::size_t kept_bytes, std::uint64_t generation)
{
    return content_parts(size_bytes, generation, [&](std::size_t from, std::size_t to) {
        return from >= kept_bytes || part_holds(start, from, std::min(to, kept_bytes), generation);
    });
}

std::size_t content_first_difference(const void *start, std::size_t size_bytes, std::size_t kept_bytes,
                                     std::uint64_t generation)
{
    const auto *bytes = static_cast<const unsigned char *>(start);
    std::size_t first = kNoDifference;
    content_parts(size_bytes, generation, [&](std::size_t from, std::size_t to) {
        const std::size_t end = std::min({to, kept_bytes, first});
        for (std::size_t i = from; i < end; ++i) {
            if (bytes[i] == content_byte(generation, i)) continue;
            first = i;
            break;
        }
        return true;
    });
    return first;
}

unsigned char content_byte(std::uint64_t generation, std::size_t offset_bytes)
{
    const std::uint64_t value = word_at(generation, offset_bytes / kWordBytes);
    unsigned char bytes[kWordBytes];
    std::memcpy(bytes, &value, kWordBytes);
    return bytes[offset_bytes % kWordBytes];
}

std::size_t content_first_nonzero(const void *start, std::size_t size_bytes, std::uint64_t generation)
{
    const auto *bytes = static_cast<const unsigned char *>(start);
    std::size_t first = kNoDifference;
    content_parts(size_bytes, generation, [&](std::size_t from, std::size_t to) {
        const std::size_t count = (to - from) / kWordBytes;
        std::uint64_t any = words_any(reinterpret_cast<const Word *>(bytes + from), count);
        for (std::size_t i = from + count * kWordBytes; i < to; ++i) any |= bytes[i];
        for (std::size_t i = any != 0 ? from : to; i < to; ++i)
            if (bytes[i] != 0) first = std::min(first, i);
        return true;
    });
    return first;
}

}  // namespace stress
