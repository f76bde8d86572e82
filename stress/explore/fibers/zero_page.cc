#include "explore/fibers/zero_page.h"

#include <cstdint>

#include "engine/base/build.h"

// One part at a time, because a page that is not zero mostly shows it in its first words.
STRESS_WIDE_VECTORS bool stress_page_is_zero(const void *page)
{
    using Word [[gnu::may_alias]] = std::uint64_t;
    constexpr unsigned kPartWords = 64;
    const auto *words = static_cast<const Word *>(page);
    for (const Word *end = words + SYSTEM_PAGE_BYTES / sizeof(Word); words < end; words += kPartWords) {
        Word any = 0;
        for (unsigned i = 0; i < kPartWords; ++i) any |= words[i];
        if (any != 0) return false;
    }
    return true;
}
