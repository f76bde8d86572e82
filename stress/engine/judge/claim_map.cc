#include "engine/judge/claim_map.h"

#include <cstdio>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/mapped.h"

namespace stress {
namespace {

constexpr int kAddressBits = 47;
constexpr int kLeafBits = 30;   // one leaf for each GiB of address space
constexpr int kWordBits = 9;    // one word for 64 granules of 8 bytes
constexpr int kPageBits = 18;   // one page of leaf for 256 KiB of address space
constexpr std::size_t kRootCount = std::size_t{1} << (kAddressBits - kLeafBits);
constexpr std::size_t kWordCount = std::size_t{1} << (kLeafBits - kWordBits);
constexpr std::size_t kPageCount = std::size_t{1} << (kLeafBits - kPageBits);
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPageWords = kPageBytes / sizeof(std::uint64_t);
constexpr std::size_t kStretchBytes = std::size_t{1} << kPageBits;  // address space that one page of bits covers
constexpr std::size_t kFlaggedBytes = std::size_t{1} << 20;         // larger blocks use flags

// Bits in the flag byte of a stretch.
constexpr unsigned char kTouched = 1;  // its page of bits may be resident
constexpr unsigned char kWhole = 2;    // one block covers the whole stretch

static_assert(kWordCount * sizeof(std::uint64_t) == kPageCount * kPageBytes);

// The part of a block that falls into one word of the map, or several whole words of one page of bits.
struct Piece {
    std::uintptr_t address;  // of the first granule
    std::uint64_t mask;      // in each word
    std::size_t words;
};

// Walks the words that a block touches, in address order.
class Pieces {
  public:
    Pieces(const void *start, std::size_t size_bytes)
        : granule_(reinterpret_cast<std::uintptr_t>(start) >> 3),
          last_((reinterpret_cast<std::uintptr_t>(start) + (size_bytes == 0 ? 0 : size_bytes - 1)) >> 3)
    {}

    bool next(Piece &piece)
    {
        if (granule_ > last_) return false;
        if ((granule_ & 63) == 0 && last_ - granule_ >= 63) {
            const std::uintptr_t page_end = (granule_ | (kStretchBytes / 8 - 1)) + 1,
                                 words_end = (last_ + 1) & ~std::uintptr_t{63};
            const std::uintptr_t end = words_end < page_end ? words_end : page_end;
            piece = {granule_ << 3, ~0ULL, (end - granule_) / 64};
            granule_ = end;
            return true;
        }
        const std::uintptr_t word_last = granule_ | 63;
        const std::uintptr_t piece_last = word_last < last_ ? word_last : last_;
        const int low = static_cast<int>(granule_ & 63), high = static_cast<int>(piece_last & 63);
        piece = {granule_ << 3, (~0ULL >> (63 - high)) & (~0ULL << low), 1};
        granule_ = piece_last + 1;
        return true;
    }

  private:
    std::uintptr_t granule_;
    std::uintptr_t last_;
};

// The first granule among `bits` in word `number` of the piece.
std::uintptr_t first_granule(const Piece &piece, std::size_t number, std::uint64_t bits)
{
    const std::uintptr_t word_start = (piece.address & ~((std::uintptr_t{1} << kWordBits) - 1)) + (number << kWordBits);
    return word_start + static_cast<std::uintptr_t>(__builtin_ctzll(bits)) * 8;
}

// The stretches that lie entirely inside a large block, [first, last), and the head and tail of the block outside them.
struct LargeParts {
    LargeParts(const void *start, std::size_t size_bytes)
        : begin(reinterpret_cast<std::uintptr_t>(start)), end(begin + size_bytes),
          first((begin + kStretchBytes - 1) & ~(kStretchBytes - 1)), last(end & ~(kStretchBytes - 1))
    {}

    std::size_t head_bytes() const { return first - begin; }
    std::size_t tail_bytes() const { return end - last; }

    std::uintptr_t begin, end, first, last;
};

void *map_or_exit(std::size_t size_bytes)
{
    void *start = harness_mmap(size_bytes, MAP_NORESERVE);
    if (start == MAP_FAILED) {
        std::fprintf(stderr, "hakmem-stress: no address space for the claim map (%zu bytes); use --no-check\n",
                     size_bytes);
        _exit(2);
    }
    madvise(start, size_bytes, MADV_NOHUGEPAGE); // so that resident_bytes can count pages
    return start;
}

} // namespace

struct ClaimMap::Leaf {
    std::atomic<std::uint64_t> words[kWordCount];
    std::atomic<unsigned char> flags[kPageCount]; // one for each page of words

    std::atomic<std::uint64_t> &word(std::uintptr_t address)
    {
        return words[(address >> kWordBits) & (kWordCount - 1)];
    }

    std::atomic<unsigned char> &flag(std::uintptr_t address)
    {
        return flags[(address >> kPageBits) & (kPageCount - 1)];
    }

    // The first address in the stretch whose bit is set, or 0 if none is.
    std::uintptr_t first_bit(std::uintptr_t stretch)
    {
        if ((flag(stretch).load(std::memory_order_relaxed) & kTouched) == 0) return 0;
        const std::atomic<std::uint64_t> *page = &word(stretch);
        for (std::size_t i = 0; i < kPageWords; ++i) {
            const std::uint64_t bits = page[i].load(std::memory_order_relaxed);
            if (bits != 0) return stretch + (i << kWordBits) + static_cast<std::uintptr_t>(__builtin_ctzll(bits)) * 8;
        }
        return 0;
    }
};

template <typename Visit> void ClaimMap::each_leaf(Visit visit) const
{
    constexpr std::size_t part = kRootCount / kRootParts;
    static_assert(kRootCount % kRootParts == 0);
    for (std::size_t i = 0; i < kRootParts; ++i) {
        if (!has_leaf_[i].load(std::memory_order_relaxed)) continue;
        for (std::size_t k = i * part; k < (i + 1) * part; ++k)
            if (Leaf *leaf = root_[k].load(std::memory_order_acquire)) visit(leaf);
    }
}

ClaimMap::ClaimMap(Callers callers)
    : root_(static_cast<std::atomic<Leaf *> *>(map_or_exit(kRootCount * sizeof(*root_)))),
      one_thread_(callers == Callers::kOneThread)
{}

ClaimMap::~ClaimMap()
{
    each_leaf([](Leaf *leaf) { munmap(leaf, sizeof(Leaf)); });
    munmap(root_, kRootCount * sizeof(*root_));
}

bool ClaimMap::covers(const void *start, std::size_t size_bytes)
{
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    constexpr std::uintptr_t limit = std::uintptr_t{1} << kAddressBits;
    return address < limit && size_bytes <= limit - address;
}

std::uint64_t ClaimMap::set_bits(std::atomic<std::uint64_t> &word, std::uint64_t bits)
{
    if (!one_thread_) return word.fetch_or(bits, std::memory_order_relaxed);
    const std::uint64_t old = word.load(std::memory_order_relaxed);
    word.store(old | bits, std::memory_order_relaxed);
    return old;
}

std::uint64_t ClaimMap::clear_bits(std::atomic<std::uint64_t> &word, std::uint64_t bits)
{
    if (!one_thread_) return word.fetch_and(~bits, std::memory_order_relaxed);
    const std::uint64_t old = word.load(std::memory_order_relaxed);
    word.store(old & ~bits, std::memory_order_relaxed);
    return old;
}

ClaimMap::Leaf *ClaimMap::leaf_at(std::size_t root_index)
{
    // acquire: pairs with the release below. The kernel's zeros would need no publishing, but ThreadSanitizer
    // takes an mmap for a write by its caller.
    Leaf *leaf = root_[root_index].load(std::memory_order_acquire);
    if (leaf != nullptr) [[likely]]
        return leaf;
    Leaf *fresh = static_cast<Leaf *>(map_or_exit(sizeof(Leaf)));
    // Relaxed: who looks for leaves meanwhile may miss one that has just come, as it may without this.
    has_leaf_[root_index / (kRootCount / kRootParts)].store(true, std::memory_order_relaxed);
    if (root_[root_index].compare_exchange_strong(leaf, fresh, std::memory_order_release, std::memory_order_acquire))
        return fresh;
    munmap(fresh, sizeof(Leaf));
    return leaf;
}

std::uintptr_t ClaimMap::claim(const void *start, std::size_t size_bytes)
{
    if (size_bytes >= kFlaggedBytes) [[unlikely]]
        return claim_large(start, size_bytes);
    return claim_bits(start, size_bytes);
}

std::uintptr_t ClaimMap::release(const void *start, std::size_t size_bytes)
{
    if (size_bytes >= kFlaggedBytes) [[unlikely]]
        return release_large(start, size_bytes);
    return release_bits(start, size_bytes);
}

std::uintptr_t ClaimMap::claim_bits(const void *start, std::size_t size_bytes)
{
    Pieces pieces(start, size_bytes);
    for (Piece piece; pieces.next(piece);) {
        Leaf *leaf = leaf_at(piece.address >> kLeafBits);
        std::atomic<std::uint64_t> *words = &leaf->word(piece.address);
        std::uint64_t old = 0;
        std::size_t set = 0; // words that were free and are now set
        for (; set < piece.words; ++set) {
            old = set_bits(words[set], piece.mask);
            if ((old & piece.mask) != 0) [[unlikely]]
                break;
        }
        std::atomic<unsigned char> &flag = leaf->flag(piece.address);
        unsigned char flags = flag.load(std::memory_order_relaxed);
        if (flags != kTouched) [[unlikely]]
            flags = flag.fetch_or(kTouched, std::memory_order_relaxed);
        if (set == piece.words && (flags & kWhole) == 0) [[likely]]
            continue;
        const std::uintptr_t taken = set == piece.words ? piece.address : first_granule(piece, set, old & piece.mask);
        if (set < piece.words) clear_bits(words[set], piece.mask & ~old);
        while (set > 0) clear_bits(words[--set], piece.mask);
        const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(start) & ~std::uintptr_t{7};
        if (piece.address != first) release_bits(reinterpret_cast<void *>(first), piece.address - first);
        return taken;
    }
    return 0;
}

std::uintptr_t ClaimMap::release_bits(const void *start, std::size_t size_bytes)
{
    std::uintptr_t missing = 0;
    Pieces pieces(start, size_bytes);
    for (Piece piece; pieces.next(piece);) {
        std::atomic<std::uint64_t> *words = &leaf_at(piece.address >> kLeafBits)->word(piece.address);
        for (std::size_t i = 0; i < piece.words; ++i) {
            const std::uint64_t absent = ~clear_bits(words[i], piece.mask) & piece.mask;
            if (absent != 0 && missing == 0) missing = first_granule(piece, i, absent);
        }
    }
    return missing;
}

std::uintptr_t ClaimMap::claim_large(const void *start, std::size_t size_bytes)
{
    const LargeParts parts(start, size_bytes);
    std::uintptr_t taken = parts.head_bytes() > 0 ? claim_bits(start, parts.head_bytes()) : 0;
    if (taken != 0) return taken;
    std::uintptr_t stretch = parts.first;
    for (; stretch < parts.last && taken == 0; stretch += kStretchBytes) {
        Leaf *leaf = leaf_at(stretch >> kLeafBits);
        if ((leaf->flag(stretch).fetch_or(kWhole, std::memory_order_relaxed) & kWhole) != 0) {
            taken = stretch;
            break; // this flag belongs to another block
        }
        taken = leaf->first_bit(stretch);
    }
    if (taken == 0 && parts.tail_bytes() > 0)
        taken = claim_bits(reinterpret_cast<void *>(parts.last), parts.tail_bytes());
    if (taken == 0) return 0;
    for (std::uintptr_t set = parts.first; set < stretch; set += kStretchBytes)
        leaf_at(set >> kLeafBits)->flag(set).fetch_and(kTouched, std::memory_order_relaxed);
    if (parts.head_bytes() > 0) release_bits(start, parts.head_bytes());
    return taken;
}

std::uintptr_t ClaimMap::release_large(const void *start, std::size_t size_bytes)
{
    const LargeParts parts(start, size_bytes);
    std::uintptr_t missing = parts.head_bytes() > 0 ? release_bits(start, parts.head_bytes()) : 0;
    for (std::uintptr_t stretch = parts.first; stretch < parts.last; stretch += kStretchBytes) {
        Leaf *leaf = leaf_at(stretch >> kLeafBits);
        // A bit set under the flag means that another block slipped in. Either its owner has seen the flag, or we see
        // its bit here.
        const std::uintptr_t intruder = leaf->first_bit(stretch);
        const unsigned char old = leaf->flag(stretch).fetch_and(kTouched, std::memory_order_relaxed);
        if (missing == 0 && (old & kWhole) == 0) missing = stretch;
        if (missing == 0) missing = intruder;
    }
    const std::uintptr_t tail_missing =
        parts.tail_bytes() > 0 ? release_bits(reinterpret_cast<void *>(parts.last), parts.tail_bytes()) : 0;
    return missing != 0 ? missing : tail_missing;
}

std::size_t ClaimMap::resident_bytes() const
{
    std::size_t pages = 0;
    each_leaf([&pages](const Leaf *leaf) {
        ++pages; // the flags themselves
        for (const std::atomic<unsigned char> &flag : leaf->flags)
            pages += flag.load(std::memory_order_relaxed) & kTouched;
    });
    return pages * kPageBytes;
}

} // namespace stress
