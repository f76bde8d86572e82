// The oracle judges what the subject did. It never calls the subject: the interpreter passes it each request and each
// answer, so that tests can fake the answers.
//
// Every function returns true if the rules held; otherwise it has recorded a failure. One Oracle serves all threads.
// Its only state is the claim map and the failure log.
#pragma once

#include <cstddef>

#include "engine/judge/claim_map.h"
#include "engine/judge/failure.h"
#include "engine/judge/line_map.h"
#include "engine/op/block.h"

namespace stress {

class Oracle {
  public:
    static constexpr std::size_t kUsableUnknown = ~static_cast<std::size_t>(0);

    Oracle(ClaimMap &claims, FailureLog &failures) : claims_(claims), failures_(failures) {}

    // Optional: fail on cache lines that two seats share or, if not strict, count them. Set before the run.
    void watch_lines(LineMap *lines, bool strict)
    {
        lines_ = lines;
        lines_strict_ = strict;
    }

    // The system schedules the threads: an errno that a wait for a lock left is noted as errno_wait, and the run
    // continues. Set before the run.
    void note_waits() { notes_waits_ = true; }

    // The seat's thread is about to end for this lap.
    void leave(std::uint32_t seat)
    {
        if (lines_ != nullptr) lines_->leave(seat);
    }

    // A fresh block: checks address, alignment, overlap, usable size (which may not reach into a live
    // block), and zeros if it is from calloc. Then fills it.
    bool allocated(const Block &block, std::size_t usable_bytes, bool from_calloc, Witness witness);

    // Checks that the block still holds all of its content and was handed over once. Ends its claim.
    bool before_free(const Block &block, Witness witness);

    // Checks that free left errno unchanged.
    bool errno_kept(const Block &freed, int before, int after, Witness witness);

    // Checks the block's whole content before realloc touches it; otherwise realloc would get the blame. Ends the
    // claim.
    bool before_realloc(const Block &block, Witness witness);

    // realloc returned `fresh` for `old`: their common part must be unchanged. Then checks like allocated().
    bool after_realloc(const Block &old, const Block &fresh, std::size_t usable_bytes, Witness witness);

    // realloc returned NULL: the old block must be unchanged, and is live again.
    bool realloc_refused(const Block &old, Witness witness);

    // A live block still holds its content.
    bool still_holds(const Block &block, Witness witness);

    bool usable_is_enough(const Block &block, std::size_t usable_bytes, Witness witness);

    // A request that cannot be met must return NULL (`start`) and set errno to ENOMEM (`error`).
    bool impossible_refused(const char *call, std::size_t size_bytes, const void *start, int error, Witness witness);

    // An ordinary request returned NULL: a failure of the run. Judges the errno too. align_bytes is 0 where none was
    // asked for.
    void exhausted(const char *call, std::size_t size_bytes, std::size_t align_bytes, int error, Witness witness);

  private:
    bool place_ok(const Block &block, Witness witness);
    bool content_ok(const char *rule, const Block &block, const void *start, std::size_t kept_bytes, Witness witness);
    bool claim_end(const Block &block, Witness witness);
    bool usable_ok(const Block &block, std::size_t usable_bytes, Witness witness);
    bool excess_ok(const Block &block, std::size_t usable_bytes, Witness witness);
    bool line_ok(const Block &block, Witness witness);

    ClaimMap &claims_;
    FailureLog &failures_;
    LineMap *lines_ = nullptr;
    bool lines_strict_ = false;
    bool notes_waits_ = false;
};

// The alignment that a block of this size must have: the one asked for, or else the largest alignment of a fundamental
// type that fits into the block.
std::size_t required_align_bytes(std::size_t size_bytes, std::size_t align_bytes);

} // namespace stress
