// The claim map: one bit for each 8-byte granule of the address space, set while a live block covers it.
//
// Law: a granule is claimed by at most one live block. Claim after malloc, release before free; a claim that finds a
// bit set has found two live blocks that overlap.
//
// Bits, not bytes: a 1 KiB block costs two or three atomic operations. Granules of 8 bytes, not 16: jemalloc and
// tcmalloc rightly put two 8-byte blocks into one 16-byte granule.
//
// A block of 1 MiB or more claims each 256 KiB stretch inside it with one flag instead of 32768 bits, and its ends with
// bits. Law: no bit is set in a stretch under a flag. A thread that sets bits looks at the flag afterwards, and a
// thread that sets the flag looks at the bits afterwards, so at least one of two overlapping blocks sees the other. The
// flag's owner looks again when it gives the flag back.
//
// Claims are relaxed: the map must add no ordering between threads, or it would hide the allocator's races. Leaves are
// mapped on first use; publishing one orders its maker, once, before those that find it. Any thread may call claim and
// release. A map made for one thread is the exception: it avoids atomic read-modify-write, on which the fuzzer, whose
// threads are coroutines, spent a tenth of its time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stress {

class ClaimMap {
  public:
    enum class Callers { kAnyThread, kOneThread };

    explicit ClaimMap(Callers callers = Callers::kAnyThread);
    ~ClaimMap();
    ClaimMap(const ClaimMap &) = delete;
    ClaimMap &operator=(const ClaimMap &) = delete;

    // Whether the map can hold the block: it covers the lower 47 bits of addresses, which Linux gives to programs.
    static bool covers(const void *start, std::size_t size_bytes);

    // Claims the block; size 0 counts as 1. Returns 0, or the address of the first granule that was already claimed;
    // the map is then unchanged.
    std::uintptr_t claim(const void *start, std::size_t size_bytes);

    // Gives the claim back. Returns 0, or the address of the first granule that was not claimed.
    std::uintptr_t release(const void *start, std::size_t size_bytes);

    // Resident bytes of the map, to subtract from the process's resident set.
    std::size_t resident_bytes() const;

  private:
    struct Leaf;

    // Each returns the previous bits.
    std::uint64_t set_bits(std::atomic<std::uint64_t> &word, std::uint64_t bits);
    std::uint64_t clear_bits(std::atomic<std::uint64_t> &word, std::uint64_t bits);

    Leaf *leaf_at(std::size_t root_index);
    template <typename Visit> void each_leaf(Visit visit) const;
    std::uintptr_t claim_bits(const void *start, std::size_t size_bytes);
    std::uintptr_t release_bits(const void *start, std::size_t size_bytes);
    std::uintptr_t claim_large(const void *start, std::size_t size_bytes);
    std::uintptr_t release_large(const void *start, std::size_t size_bytes);

    std::atomic<Leaf *> *root_;
    bool one_thread_;
    // Which parts of the root may have a leaf: reading all of it takes a tenth of the time of a short run.
    static constexpr std::size_t kRootParts = 256;
    std::atomic<bool> has_leaf_[kRootParts] = {};
};

} // namespace stress
