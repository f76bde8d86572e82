#include "engine/judge/oracle.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "engine/base/libc.h"
#include "engine/op/content.h"

namespace stress {
namespace {

// "ENOMEM", or the number of an error without a name.
struct ErrnoText {
    char text[24];
    explicit ErrnoText(int error)
    {
        const char *name = error != 0 ? error_name(error) : nullptr;
        if (name != nullptr) std::snprintf(text, sizeof text, "%s", name);
        else std::snprintf(text, sizeof text, "%d", error);
    }
};

}  // namespace

std::size_t required_align_bytes(std::size_t size_bytes, std::size_t align_bytes)
{
    if (align_bytes != 0) return align_bytes;
    if (size_bytes >= 16) return 16;
    return size_bytes >= 8 ? 8 : 1;
}

bool Oracle::place_ok(const Block &block, Witness witness)
{
    const auto address = reinterpret_cast<std::uintptr_t>(block.start);
    if (!ClaimMap::covers(block.start, block.size_bytes)) {
        failures_.add(rule::kAddress, witness, "block %p of %zu bytes lies outside the user address space", block.start,
                      block.size_bytes);
        return false;
    }
    const std::size_t align_bytes = required_align_bytes(block.size_bytes, block.align_bytes);
    if (address % align_bytes != 0) {
        failures_.add(rule::kAlignment, witness, "block %p of %zu bytes is not aligned to %zu", block.start,
                      block.size_bytes, align_bytes);
        return false;
    }
    const std::uintptr_t taken = claims_.claim(block.start, block.size_bytes);
    if (taken != 0) {
        failures_.add(rule::kOverlap, witness, "new block %p of %zu bytes overlaps a live block at 0x%" PRIxPTR,
                      block.start, block.size_bytes, taken);
        return false;
    }
    return lines_ == nullptr || line_ok(block, witness);
}

bool Oracle::line_ok(const Block &block, Witness witness)
{
    const LineMap::Shared shared = lines_->claim(block.start, block.size_bytes, witness.seat);
    if (shared.line == 0 || !lines_strict_) return true;
    failures_.add(rule::kFalseSharing, witness,
                  "new block %p of %zu bytes shares the cache line at 0x%" PRIxPTR " with a live block of thread %u",
                  block.start, block.size_bytes, shared.line, shared.seat);
    return false;
}

bool Oracle::usable_ok(const Block &block, std::size_t usable_bytes, Witness witness)
{
    if (usable_bytes >= block.size_bytes) return true;
    failures_.add(rule::kUsableSize, witness, "malloc_usable_size(%p) is %zu for a block of %zu bytes", block.start,
                  usable_bytes, block.size_bytes);
    return false;
}

// The bytes between the request and the usable size belong to the block. Claims them for a moment, so that a live block
// in them shows. Writes their end in one op of 256, so that a malloc that keeps its own data there is damaged; not in
// each op, since that is a crash, and a live block in them a message.
bool Oracle::excess_ok(const Block &block, std::size_t usable_bytes, Witness witness)
{
    constexpr std::uintptr_t granule = 8, written_max = 64, writing_period = 256;
    const auto start = reinterpret_cast<std::uintptr_t>(block.start);
    const std::size_t claimed = block.size_bytes == 0 ? 1 : block.size_bytes; // as ClaimMap::claim counts it
    const std::uintptr_t from = (start + claimed + granule - 1) / granule * granule;
    const std::uintptr_t end = (start + usable_bytes) / granule * granule; // wraps around if not covered
    const bool covered = ClaimMap::covers(block.start, usable_bytes);
    if (usable_bytes == kUsableUnknown || (covered && end <= from)) return true;
    auto *const excess = reinterpret_cast<unsigned char *>(from);
    const std::size_t bytes = end - from;
    const std::uintptr_t taken = covered ? claims_.claim(excess, bytes) : 0;
    if (!covered || taken != 0) {
        char where[80] = "beyond the address space";
        if (covered) std::snprintf(where, sizeof where, "into a live block at 0x%" PRIxPTR, taken);
        failures_.add(rule::kUsableSize, witness,
                      "malloc_usable_size(%p) is %zu for a block of %zu bytes, which reaches %s", block.start,
                      usable_bytes, block.size_bytes, where);
        return false;
    }
    const std::size_t written = bytes < written_max ? bytes : written_max;
    if (witness.op % writing_period == writing_period - 1) std::memset(excess + bytes - written, 0xe5, written);
    claims_.release(excess, bytes);
    return true;
}

bool Oracle::content_ok(const char *rule, const Block &block, const void *start, std::size_t kept_bytes,
                        Witness witness)
{
    if (content_holds(start, block.size_bytes, kept_bytes, block.generation)) [[likely]]
        return true;
    const std::size_t offset = content_first_difference(start, block.size_bytes, kept_bytes, block.generation);
    if (offset == kNoDifference) {
        failures_.add(rule, witness, "block %p of %zu bytes changed while it was read", start, block.size_bytes);
        return false;
    }
    failures_.add(rule, witness,
                  "block %p of %zu bytes: at offset %zu expected 0x%02x, found 0x%02x; generation 0x%" PRIx64
                  ", allocated by thread %u at its op %" PRIu64,
                  start, block.size_bytes, offset, content_byte(block.generation, offset),
                  static_cast<const unsigned char *>(start)[offset], block.generation,
                  generation_seat(block.generation), generation_op(block.generation));
    return false;
}

bool Oracle::claim_end(const Block &block, Witness witness)
{
    if (lines_ != nullptr) lines_->release(block.start, block.size_bytes);
    const std::uintptr_t missing = claims_.release(block.start, block.size_bytes);
    if (missing == 0) [[likely]]
        return true;
    failures_.add(rule::kHandover, witness,
                  "block %p of %zu bytes arrived here but is not live at 0x%" PRIxPTR
                  "; allocated by thread %u at its op %" PRIu64,
                  block.start, block.size_bytes, missing, generation_seat(block.generation),
                  generation_op(block.generation));
    return false;
}

bool Oracle::allocated(const Block &block, std::size_t usable_bytes, bool from_calloc, Witness witness)
{
    if (!place_ok(block, witness) || !usable_ok(block, usable_bytes, witness)) return false;
    if (from_calloc) {
        const std::size_t offset = content_first_nonzero(block.start, block.size_bytes, block.generation);
        if (offset != kNoDifference) {
            failures_.add(rule::kCallocZero, witness, "calloc block %p of %zu bytes has 0x%02x at offset %zu",
                          block.start, block.size_bytes, static_cast<const unsigned char *>(block.start)[offset],
                          offset);
            return false;
        }
    }
    content_fill(block.start, block.size_bytes, block.generation);
    return excess_ok(block, usable_bytes, witness);
}

bool Oracle::before_free(const Block &block, Witness witness)
{
    return content_ok(rule::kContent, block, block.start, block.size_bytes, witness) && claim_end(block, witness);
}

bool Oracle::errno_kept(const Block &freed, int before, int after, Witness witness)
{
    if (before == after) [[likely]]
        return true;
    const ErrnoText changed(after);
    // What futex leaves where the word changed before the wait, or a signal ended it.
    if (notes_waits_ && (after == EAGAIN || after == EINTR)) {
        failures_.note(rule::kErrnoWait, witness, "free of %p of %zu bytes changed errno from %d to %s", freed.start,
                       freed.size_bytes, before, changed.text);
        return true;
    }
    failures_.add(rule::kErrnoKept, witness, "free of %p of %zu bytes changed errno from %d to %s", freed.start,
                  freed.size_bytes, before, changed.text);
    return false;
}

bool Oracle::before_realloc(const Block &block, Witness witness)
{
    return content_ok(rule::kContent, block, block.start, block.size_bytes, witness) && claim_end(block, witness);
}

bool Oracle::after_realloc(const Block &old, const Block &fresh, std::size_t usable_bytes, Witness witness)
{
    if (!place_ok(fresh, witness) || !usable_ok(fresh, usable_bytes, witness)) return false;
    const std::size_t kept = fresh.size_bytes < old.size_bytes ? fresh.size_bytes : old.size_bytes;
    if (!content_ok(rule::kReallocContent, old, fresh.start, kept, witness)) return false;
    content_fill(fresh.start, fresh.size_bytes, fresh.generation);
    return excess_ok(fresh, usable_bytes, witness);
}

bool Oracle::realloc_refused(const Block &old, Witness witness)
{
    return place_ok(old, witness) && content_ok(rule::kReallocContent, old, old.start, old.size_bytes, witness);
}

bool Oracle::still_holds(const Block &block, Witness witness)
{
    return content_ok(rule::kContent, block, block.start, block.size_bytes, witness);
}

bool Oracle::usable_is_enough(const Block &block, std::size_t usable_bytes, Witness witness)
{
    return usable_ok(block, usable_bytes, witness);
}

bool Oracle::impossible_refused(const char *call, std::size_t size_bytes, const void *start, int error, Witness witness)
{
    if (start != nullptr) {
        failures_.add(rule::kEnomem, witness, "%s returned a block, %p, for 0x%zx bytes, a size that cannot exist",
                      call, start, size_bytes);
        return false;
    }
    if (error == ENOMEM) return true;
    failures_.add(rule::kEnomem, witness, "%s of 0x%zx bytes failed with errno %s instead of ENOMEM", call, size_bytes,
                  ErrnoText(error).text);
    return false;
}

void Oracle::exhausted(const char *call, std::size_t size_bytes, std::size_t align_bytes, int error, Witness witness)
{
    char aligned[48] = "";
    if (align_bytes != 0) std::snprintf(aligned, sizeof aligned, " aligned to %zu", align_bytes);
    failures_.add(error == ENOMEM ? rule::kExhausted : rule::kEnomem, witness,
                  "%s of %zu bytes%s returned NULL with errno %s", call, size_bytes, aligned, ErrnoText(error).text);
}

} // namespace stress
