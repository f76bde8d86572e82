#include "fuzz/op_shrink.h"

#include <algorithm>

namespace fuzz {
namespace {

using stress::kOpSizeMask;
using stress::op_allocates;
using stress::op_frees;
using stress::op_has_slot;
using stress::op_size;

constexpr std::size_t kSizeStep = 64;  // up to this size, sizes are also lowered one by one

class Shrinker {
  public:
    Shrinker(OpInput input, const OpShape &shape, const OpShrink &how)
        : best_(std::move(input)), shape_(shape), how_(how)
    {}

    OpInput run()
    {
        without_stops();
        for (bool again = true; again && !how_.give_up();) {
            again = fewer_ops();
            again |= fewer_threads();
            for (std::size_t i = 0; i < best_.ops.size() && !how_.give_up(); ++i) {
                again |= simpler_stop(i);
                again |= simpler_kind(i);
                again |= simpler_size(i);
                again |= simpler_argument(i);
                again |= with(i, [](Op &op) { op.thread = 0; });
            }
            again |= renumber_slots();
        }
        return std::move(best_);
    }

  private:
    // Takes `trial` if it differs and still fails.
    bool accept(OpInput trial)
    {
        if (how_.give_up()) return false;
        op_input_normalise(trial, shape_);
        if (trial == best_ || !how_.fails(trial)) return false;
        best_ = std::move(trial);
        return true;
    }

    template <typename Change> bool with(std::size_t index, Change change)
    {
        OpInput trial = best_;
        change(trial.ops[index]);
        return accept(std::move(trial));
    }

    // Lowers the value that `set` sets, now `value`, as long as each lower step still fails: to `least`, then by
    // halves, then one by one.
    template <typename Set> bool lower(unsigned value, unsigned least, Set set)
    {
        const unsigned before = value;
        if (value > least && set(least)) return true;
        while (value / 2 > least && set(value / 2)) value /= 2;
        while (value > least + 1 && set(value - 1)) --value;
        return value < before;
    }

    void without_stops()
    {
        OpInput trial = best_;
        for (Op &op : trial.ops) op_set_stop(op, {});
        accept(std::move(trial));
    }

    // Removes chunks of ops: halves first, single ops last.
    bool fewer_ops()
    {
        const std::size_t before = best_.ops.size();
        for (std::size_t chunk = std::max<std::size_t>(1, before / 2);; chunk /= 2) {
            for (std::size_t from = 0; from < best_.ops.size() && !how_.give_up();) {
                OpInput trial = best_;
                const std::size_t to = std::min(from + chunk, trial.ops.size());
                trial.ops.erase(trial.ops.begin() + static_cast<std::ptrdiff_t>(from),
                                trial.ops.begin() + static_cast<std::ptrdiff_t>(to));
                if (!accept(std::move(trial))) from += chunk;
            }
            if (chunk == 1 || how_.give_up()) break;
        }
        return best_.ops.size() < before;
    }

    // Gives the ops of thread `from` to thread `to`, and renumbers the threads above it.
    bool merge_threads(unsigned from, unsigned to)
    {
        OpInput trial = best_;
        for (Op &op : trial.ops) {
            if (op.thread == from) op.thread = static_cast<std::uint16_t>(to);
            else if (op.thread > from) --op.thread;
        }
        --trial.threads;
        return accept(std::move(trial));
    }

    bool fewer_threads()
    {
        const unsigned before = best_.threads;
        for (unsigned from = before - 1; from > 0; --from)
            for (unsigned to = 0; to < from && from < best_.threads; ++to)
                if (merge_threads(from, to)) break;
        return best_.threads < before;
    }

    bool simpler_stop(std::size_t index)
    {
        const OpStop stop = op_stop(best_.ops[index]);
        if (stop.point == 0) return false;
        if (with(index, [](Op &op) { op_set_stop(op, {}); })) return true;
        const bool shorter = lower(stop.ops, 1, [&](unsigned ops) {
            return with(index, [ops](Op &op) { op_set_stop(op, {op_stop(op).point, static_cast<std::uint8_t>(ops)}); });
        });
        const bool earlier = lower(stop.point, 1, [&](unsigned point) {
            return with(index,
                        [point](Op &op) { op_set_stop(op, {static_cast<std::uint8_t>(point), op_stop(op).ops}); });
        });
        return shorter || earlier;
    }

    bool simpler_kind(std::size_t index)
    {
        const OpKind kind = best_.ops[index].kind;
        const OpKind plain = op_frees(kind) ? OpKind::Free : op_allocates(kind) ? OpKind::Malloc : kind;
        if (plain == kind) return false;
        return with(index, [plain](Op &op) {
            op.kind = plain;
            op.arg = 0;
        });
    }

    // Tries round sizes first, since people would write those. For a block, 0 is not simpler than 1, but an edge.
    bool simpler_size(std::size_t index)
    {
        static constexpr std::size_t sizes[] = {1,    8,    16,   24,    64,    100,   128,    256,     512,
                                                1000, 2000, 4096, 10000, 32768, 65536, 100000, 1 << 20, 4 << 20};
        const std::size_t now = op_size(best_.ops[index]);
        if (now == 0 && op_allocates(best_.ops[index].kind)) return with(index, [](Op &op) { op.size48 = 1; });
        for (const std::size_t size : sizes) {
            if (size >= now) break;
            if (with(index, [size](Op &op) { op.size48 = size & kOpSizeMask; })) return true;
        }
        return now > 1 && now <= kSizeStep && with(index, [now](Op &op) { op.size48 = (now - 1) & kOpSizeMask; });
    }

    bool simpler_argument(std::size_t index)
    {
        return lower(best_.ops[index].arg, 0, [&](unsigned arg) {
            return with(index, [arg](Op &op) { op.arg = static_cast<std::uint8_t>(arg); });
        });
    }

    // Numbers slots 0, 1, 2, ... in the order in which they appear.
    bool renumber_slots()
    {
        std::uint32_t numbers[kOpInputSlots] = {}, count = 0;
        OpInput trial = best_;
        for (Op &op : trial.ops) {
            if (!op_has_slot(op.kind)) continue;
            if (numbers[op.slot] == 0) numbers[op.slot] = ++count;
            op.slot = numbers[op.slot] - 1;
        }
        return accept(std::move(trial));
    }

    OpInput best_;
    const OpShape &shape_;
    const OpShrink &how_;
};

} // namespace

OpInput op_shrink(OpInput input, const OpShape &shape, const OpShrink &how)
{
    return Shrinker(std::move(input), shape, how).run();
}

} // namespace fuzz
