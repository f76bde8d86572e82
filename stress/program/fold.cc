#include <algorithm>
#include <cstring>

#include "program/fold.h"

namespace stress {
namespace {

constexpr std::size_t kWidthMax = 4;
constexpr std::size_t kRoundsMin = 64;
constexpr std::size_t kHandedRoundsMax = 8192;  // rounds, if each op waits for another thread's op on the same slots
constexpr std::size_t kLiveBytesMax = std::size_t{256} << 20;   // bytes that a candidate holds at once
constexpr std::size_t kTotalBytesMax = std::size_t{2} << 30;    // bytes that a candidate writes
constexpr std::size_t kCandidatesMax = 400;

// Numbers the slots 0, 1, 2 ... in order of first use. Returns the number of slots.
std::uint32_t renumber(OpList &ops)
{
    std::uint32_t old[2 * kWidthMax];
    std::uint32_t count = 0;
    for (Op &op : ops) {
        op.link = 0;
        if (!op_has_slot(op.kind)) continue;
        std::uint32_t i = 0;
        while (i < count && old[i] != op.slot) ++i;
        if (i == count) old[count++] = op.slot;
        op.slot = i;
    }
    return count;
}

std::size_t bytes_asked(const OpList &ops)
{
    std::size_t bytes = 16 * ops.size();
    for (const Op &op : ops) {
        if (!op_allocates(op.kind)) continue;
        const bool counted = op.kind == OpKind::Calloc || op.kind == OpKind::ReallocArray;
        bytes += std::min(op_size(op), kLiveBytesMax) * (counted ? op.arg : 1);
    }
    return bytes;
}

bool several_threads(const OpList &ops)
{
    return std::any_of(ops.begin(), ops.end(), [&](const Op &op) { return op.thread != ops[0].thread; });
}

Op repeat_of(std::size_t rounds, std::uint32_t step, std::size_t width)
{
    return op_make(OpKind::Repeat, static_cast<std::uint32_t>(width), rounds, static_cast<std::uint8_t>(step));
}

class Folder {
  public:
    Folder(const OpList &ops, std::size_t rounds_max) : ops_(ops), rounds_max_(std::max(rounds_max, kRoundsMin)) {}

    std::vector<OpList, MappedAllocator<OpList>> run()
    {
        if (ops_.empty()) return {};
        for (std::size_t width = 1; width <= kWidthMax; ++width) {
            singles_and_chains(width);
            windows(width);
        }
        pairs();
        return std::move(out_);
    }

  private:
    // The ops on one block, at most `width` of them, from its allocation on.
    OpList chain(std::size_t from, std::size_t width) const
    {
        OpList body;
        for (std::size_t i = from; i < ops_.size() && body.size() < width; ++i)
            if (op_has_slot(ops_[i].kind) && ops_[i].slot == ops_[from].slot) body.push_back(ops_[i]);
        return body;
    }

    // For each kind: the last op of that kind, and what followed on its slot; with and without a free.
    void singles_and_chains(std::size_t width)
    {
        for (std::size_t kind = 0; kind < kOpKindCount; ++kind) {
            std::size_t seen = 0;
            for (std::size_t i = ops_.size(); i-- > 0 && seen < 2;) {
                const Op &op = ops_[i];
                if (static_cast<std::size_t>(op.kind) != kind || op.kind == OpKind::Repeat) continue;
                ++seen;
                OpList body = op_has_slot(op.kind) ? chain(i, width) : OpList{op};
                if (body.size() == width) add(body);
                if (!op_allocates(op.kind) || width < 2) continue;
                body = chain(i, width - 1);
                if (body.size() != width - 1) continue;
                Op last = op_make(OpKind::Free, op.slot);
                last.thread = body.back().thread;
                body.push_back(last);
                add(body);
            }
        }
    }

    void windows(std::size_t width)
    {
        constexpr std::size_t tries = 12;
        for (std::size_t back = 0; back < tries && back + width <= ops_.size(); ++back) {
            const std::size_t from = ops_.size() - back - width;
            OpList body(ops_.begin() + static_cast<std::ptrdiff_t>(from),
                        ops_.begin() + static_cast<std::ptrdiff_t>(from + width));
            if (std::none_of(body.begin(), body.end(), [](const Op &op) { return op.kind == OpKind::Repeat; }))
                add(body);
        }
    }

    // Two bodies of one or two ops each, on separate slots.
    void pairs()
    {
        const std::size_t singles = std::min<std::size_t>(bodies_.size(), 16);
        for (std::size_t a = 0; a < singles; ++a)
            for (std::size_t b = 0; b < singles; ++b) {
                if (a == b || bodies_[a].size() + bodies_[b].size() > kWidthMax) continue;
                OpList body = bodies_[a];
                for (Op op : bodies_[b]) {
                    op.slot += kWidthMax;
                    body.push_back(op);
                }
                add(body);
            }
    }

    void add(OpList body)
    {
        const std::uint32_t slots = renumber(body);
        for (const OpList &known : bodies_)
            if (known.size() == body.size() && std::memcmp(known.data(), body.data(), body.size() * sizeof(Op)) == 0)
                return;
        bodies_.push_back(body);
        for (std::uint32_t step : {slots, std::uint32_t{0}}) {
            if (out_.size() == kCandidatesMax) return;
            const std::size_t bytes = bytes_asked(body);
            std::size_t rounds = std::min(rounds_max_, (step != 0 ? kLiveBytesMax : kTotalBytesMax) / bytes + 1);
            if (step != 0) rounds = std::min<std::size_t>(rounds, kOpSlotsMax / step);
            else if (several_threads(body)) rounds = std::min(rounds, kHandedRoundsMax);
            OpList ops{repeat_of(rounds, step, body.size())};
            ops.insert(ops.end(), body.begin(), body.end());
            out_.push_back(std::move(ops));
            if (slots == 0) return;
        }
    }

    const OpList &ops_;
    std::size_t rounds_max_;
    std::vector<OpList, MappedAllocator<OpList>> bodies_, out_;
};

}  // namespace

std::vector<OpList, MappedAllocator<OpList>> fold_candidates(const OpList &ops, std::size_t rounds_max)
{
    return Folder(ops, rounds_max).run();
}

OpList fold_segment(const OpList &ops, std::size_t from, std::size_t to, std::size_t width, FoldSlots slots)
{
    OpList body(ops.begin() + static_cast<std::ptrdiff_t>(from),
                ops.begin() + static_cast<std::ptrdiff_t>(from + width));
    for (std::size_t i = from; i < to; ++i)
        if (ops[i].kind == OpKind::Repeat) return {};
    std::uint32_t step = 0;
    if (slots == FoldSlots::Next) step = static_cast<std::uint32_t>(width);
    if (slots == FoldSlots::Fresh) {
        std::uint32_t above = 0;
        for (const Op &op : ops)
            if (op_has_slot(op.kind)) above = std::max(above, op.slot + 1);
        step = renumber(body);
        for (Op &op : body)
            if (op_has_slot(op.kind)) op.slot = (op.slot + above) % kOpSlotsMax;
    }
    OpList out(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(from));
    out.push_back(repeat_of((to - from + width - 1) / width, step, width));
    out.insert(out.end(), body.begin(), body.end());
    out.insert(out.end(), ops.begin() + static_cast<std::ptrdiff_t>(to), ops.end());
    return out;
}

}  // namespace stress
