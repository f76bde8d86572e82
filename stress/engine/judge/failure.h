// What the oracle found. Fixed buffers, no allocation: the heap may be broken when a failure is recorded.
//
// Any thread may add. The first failure stops the run. Only the first few are kept, because later ones are mostly
// consequences.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stress {

// Names of the rules, as they appear in the JSON result.
namespace rule {
inline constexpr const char *kOverlap = "overlap";
inline constexpr const char *kAlignment = "alignment";
inline constexpr const char *kContent = "content";
inline constexpr const char *kReallocContent = "realloc_content";
inline constexpr const char *kCallocZero = "calloc_zero";
inline constexpr const char *kUsableSize = "usable_size";
inline constexpr const char *kErrnoKept = "errno_kept";
inline constexpr const char *kErrnoWait = "errno_wait";
inline constexpr const char *kEnomem = "enomem";
inline constexpr const char *kExhausted = "exhausted";
inline constexpr const char *kAddress = "address";
inline constexpr const char *kFalseSharing = "false_sharing";
inline constexpr const char *kHandover = "handover";
inline constexpr const char *kBalance = "balance";
inline constexpr const char *kMemoryBound = "memory_bound";
inline constexpr const char *kThread = "thread";
inline constexpr const char *kCancellation = "cancellation";
inline constexpr const char *kFork = "fork";
inline constexpr const char *kSignal = "signal";
inline constexpr const char *kLoading = "loading";
inline constexpr const char *kProvesNothing = "proves_nothing";
inline constexpr const char *kLaw = "law";
inline constexpr const char *kProgress = "progress";
inline constexpr const char *kCrash = "crash";
inline constexpr const char *kPlateau = "plateau";
inline constexpr const char *kMemoryReturn = "memory_return";
inline constexpr const char *kMappings = "mappings";
inline constexpr const char *kDiverged = "diverged";
inline constexpr const char *kHeap = "heap";
inline constexpr const char *kProfile = "profile";
inline constexpr const char *kRemains = "remains";
}  // namespace rule

// The witness of a failure: the seat, and the index of its op.
struct Witness {
    std::uint32_t seat;
    std::uint64_t op;
};

struct Failure {
    const char *rule;
    char detail[400];
};

class FailureLog {
  public:
    static constexpr std::size_t kKept = 8;

    // The first failure sets `stop`.
    explicit FailureLog(std::atomic<bool> &stop) : stop_(stop) {}

    [[gnu::format(printf, 4, 5)]] void add(const char *rule, Witness witness, const char *format, ...);

    // A failure that does not stop the run, since it comes by chance and damages nothing: what it hid would stay unseen.
    // Only the first is kept, apart from the others.
    [[gnu::format(printf, 4, 5)]] void note(const char *rule, Witness witness, const char *format, ...);

    // The failure that was noted, or null. Call it when the threads have ended.
    const Failure *noted() const;

    // Whether any failure was added. Relaxed: a hint to stop early; nothing is read through it.
    bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

    // The number of complete failures. Call it when the threads have ended, or from a crash handler.
    std::size_t size() const;
    const Failure &operator[](std::size_t index) const { return failures_[index]; }

  private:
    std::atomic<bool> &stop_;
    std::atomic<std::size_t> count_{0};
    std::array<std::atomic<bool>, kKept> complete_ = {};
    std::array<Failure, kKept> failures_ = {};
    std::atomic<bool> noting_{false}, noted_{false};
    Failure note_ = {};
};

} // namespace stress
