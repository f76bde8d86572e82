#include "engine/judge/line_map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <new>

#include "engine/base/mapped.h"

namespace stress {
namespace {

constexpr int kMappedBits = 47;
constexpr int kLineBits = 6;
constexpr int kLineLeafBits = 22;  // one leaf for each 4 MiB of address space
constexpr std::size_t kLineRootCount = std::size_t{1} << (kMappedBits - kLineLeafBits);
constexpr std::size_t kLineCount = std::size_t{1} << (kLineLeafBits - kLineBits);

// A word: the number of live blocks in the low bits; above them the seat plus one, 0 for nobody, or kShared. A malloc
// puts at most eight blocks into a line, since none gives out less than 8 bytes.
constexpr unsigned kCountBits = 5, kCountMask = (1U << kCountBits) - 1;
constexpr unsigned kNobody = 0, kShared = 0xffffU >> kCountBits;

unsigned owner_of(unsigned word)
{
    return word >> kCountBits;
}

std::uint16_t word_of(unsigned owner, unsigned count)
{
    return static_cast<std::uint16_t>(owner << kCountBits | count);
}

}  // namespace

struct LineMap::Leaf {
    Leaf *next;  // list of all leaves
    std::atomic<std::uint16_t> words[kLineCount];
};

LineMap::LineMap()
{
    // Far more than is ever touched, so it is only reserved.
    void *start = mmap(nullptr, kLineRootCount * sizeof(*root_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        std::fprintf(stderr, "hakmem-stress: no address space for the line map; use --no-check\n");
        _exit(2);
    }
    root_ = static_cast<std::atomic<Leaf *> *>(start);
}

LineMap::~LineMap()
{
    Leaf *next = nullptr;
    for (Leaf *leaf = leaves_.load(std::memory_order_relaxed); leaf != nullptr; leaf = next) {
        next = leaf->next;
        harness_unmap(leaf, sizeof(Leaf));
    }
    munmap(root_, kLineRootCount * sizeof(*root_));
}

std::atomic<std::uint16_t> &LineMap::word(std::uintptr_t line)
{
    std::atomic<Leaf *> &entry = root_[line >> kLineLeafBits];
    // acquire: pairs with the release below, once for each leaf; see ClaimMap::leaf_at.
    Leaf *leaf = entry.load(std::memory_order_acquire);
    if (leaf == nullptr) [[unlikely]] {
        Leaf *fresh = static_cast<Leaf *>(harness_map(sizeof(Leaf)));
        if (entry.compare_exchange_strong(leaf, fresh, std::memory_order_release, std::memory_order_acquire)) {
            leaf = fresh;
            fresh->next = leaves_.load(std::memory_order_relaxed);
            // Relaxed: the list is walked only after the threads were joined.
            while (!leaves_.compare_exchange_weak(fresh->next, fresh, std::memory_order_relaxed)) {}
        } else {
            harness_unmap(fresh, sizeof(Leaf));
        }
    }
    return leaf->words[(line >> kLineBits) & (kLineCount - 1)];
}

LineMap::Shared LineMap::claim_line(std::uintptr_t line, std::uint32_t seat)
{
    std::atomic<std::uint16_t> &entry = word(line);
    const unsigned mine = seat + 1;
    std::uint16_t old = entry.load(std::memory_order_relaxed);
    for (;;) {
        const unsigned count = old & kCountMask, owner = owner_of(old);
        const bool meets = count > 0 && owner != kNobody && owner != mine &&
                           (owner == kShared || !gone_[owner - 1].load(std::memory_order_relaxed));
        const unsigned now = meets ? kShared : mine;
        if (!entry.compare_exchange_weak(old, word_of(now, count + 1), std::memory_order_relaxed)) continue;
        if (!meets || owner == kShared) return {};
        shared_count_.fetch_add(1, std::memory_order_relaxed);
        return {line, owner - 1};
    }
}

LineMap::Shared LineMap::claim(const void *start, std::size_t size_bytes, std::uint32_t seat)
{
    const auto first_byte = reinterpret_cast<std::uintptr_t>(start);
    const std::uintptr_t last_byte = first_byte + (size_bytes == 0 ? 0 : size_bytes - 1);
    const std::uintptr_t first = first_byte & ~(kLineBytes - 1), last = last_byte & ~(kLineBytes - 1);
    const Shared at_first = claim_line(first, seat);
    const Shared at_last = last != first ? claim_line(last, seat) : Shared{};
    return at_first.line != 0 ? at_first : at_last;
}

void LineMap::release(const void *start, std::size_t size_bytes)
{
    const auto first_byte = reinterpret_cast<std::uintptr_t>(start);
    const std::uintptr_t last_byte = first_byte + (size_bytes == 0 ? 0 : size_bytes - 1);
    const std::uintptr_t first = first_byte & ~(kLineBytes - 1), last = last_byte & ~(kLineBytes - 1);
    word(first).fetch_sub(1, std::memory_order_relaxed);
    if (last != first) word(last).fetch_sub(1, std::memory_order_relaxed);
}

void LineMap::disown()
{
    for (std::atomic<bool> &gone : gone_) gone.store(false, std::memory_order_relaxed);
    for (Leaf *leaf = leaves_.load(std::memory_order_relaxed); leaf != nullptr; leaf = leaf->next)
        for (std::atomic<std::uint16_t> &entry : leaf->words)
            entry.store(word_of(kNobody, entry.load(std::memory_order_relaxed) & kCountMask),
                        std::memory_order_relaxed);
}

}  // namespace stress
