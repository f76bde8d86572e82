// More than 400 lines: one function for each mutation, and the table that names them.
#include "fuzz/op_mutator.h"

#include <algorithm>

#include "fuzz/boundary_sizes.h"

namespace fuzz {
namespace {

using stress::kOpSizeMask;
using stress::op_allocates;
using stress::op_frees;
using stress::op_has_slot;
using stress::op_size;

std::ptrdiff_t at(std::size_t index)
{
    return static_cast<std::ptrdiff_t>(index);
}

// Sizes: usual ones as programs ask for, and as often a boundary. Schedules depend on which blocks meet, and seldom
// need large blocks, which cost as much as all else.
std::size_t draw_size(const OpShape &shape, Rng &rng)
{
    const std::vector<std::size_t> &edges = boundary_sizes();
    if (rng.one_in(shape.stops ? 48 : 6)) return edges[rng.below(edges.size())];
    switch (rng.below(6)) {
    case 0: return rng.below(17);
    case 1: return rng.below(1025);
    case 2: return rng.below(std::size_t{1} << (5 + rng.below(shape.stops ? 10 : 17)));
    default: { // an edge up to 4 KiB: these include most of the classes, and are cheap
        const auto end = std::upper_bound(edges.begin(), edges.end(), std::size_t{4097});
        return edges[rng.below(static_cast<std::uint64_t>(end - edges.begin()))];
    }
    }
}

std::uint8_t draw_argument(OpKind kind, Rng &rng)
{
    switch (kind) {
    case OpKind::AlignedAlloc:
    case OpKind::PosixMemalign:
    case OpKind::Memalign: return static_cast<std::uint8_t>(rng.one_in(16) ? rng.below(31) : 3 + rng.below(14));
    case OpKind::Calloc:
    case OpKind::ReallocArray: return static_cast<std::uint8_t>(rng.one_in(4) ? rng.below(256) : rng.below(3));
    default: return static_cast<std::uint8_t>(rng.below(256));
    }
}

OpKind draw_kind(Rng &rng)
{
    static constexpr OpKind common[] = {OpKind::Malloc, OpKind::Malloc,  OpKind::Free,
                                        OpKind::Free,   OpKind::Realloc, OpKind::Calloc};
    if (rng.below(3) != 0) return common[rng.below(std::size(common))];
    const auto kinds = op_input_kinds();
    return kinds[rng.below(kinds.size())];
}

// The slot of an op within a few places, or any of the first slots, or any slot.
std::uint32_t draw_slot(const OpInput &input, std::size_t index, Rng &rng)
{
    constexpr std::size_t near = 8;
    if (rng.below(4) != 0) {
        const std::size_t from = index > near ? index - near : 0, to = std::min(input.ops.size(), index + near);
        if (from < to)
            if (const Op &op = input.ops[from + rng.below(to - from)]; op_has_slot(op.kind)) return op.slot;
    }
    return static_cast<std::uint32_t>(rng.below(rng.one_in(2) ? 8 : kOpInputSlots));
}

Op draw_op(const OpInput &input, const OpShape &shape, std::size_t index, Rng &rng)
{
    Op op{};
    op.kind = draw_kind(rng);
    op.arg = draw_argument(op.kind, rng);
    op.thread = static_cast<std::uint16_t>(rng.below(input.threads));
    op.slot = draw_slot(input, index, rng);
    op.size48 = (op.kind == OpKind::FailOs ? rng.below(kOpInputFailMax + 1) : draw_size(shape, rng)) & kOpSizeMask;
    return op_input_normalise(op, input.threads, shape);
}

struct Change {
    OpInput &input;
    const OpShape &shape;
    Rng &rng;

    std::vector<Op> &ops() { return input.ops; }
    std::size_t room() const { return kOpInputOpsMax - std::min(kOpInputOpsMax, input.ops.size()); }
    std::size_t any() { return rng.below(ops().size()); }
    // The length of a run of ops, mostly short.
    std::size_t run_length(std::size_t from)
    {
        const std::size_t left = ops().size() - from;
        return 1 + rng.below(rng.one_in(4) ? left : std::min<std::size_t>(left, 8));
    }
    bool set(std::size_t index, Op op)
    {
        ops()[index] = op_input_normalise(op, input.threads, shape);
        return true;
    }

    bool insert()
    {
        if (room() == 0) return false;
        const std::size_t index = rng.below(ops().size() + 1);
        ops().insert(ops().begin() + at(index), draw_op(input, shape, index, rng));
        return true;
    }

    bool remove()
    {
        if (ops().size() < 2) return false;
        const std::size_t from = any();
        const std::size_t count = std::min(rng.one_in(2) ? 1 : run_length(from), ops().size() - 1);
        ops().erase(ops().begin() + at(from), ops().begin() + at(from + count));
        return true;
    }

    bool duplicate()
    {
        if (ops().empty() || room() == 0) return false;
        const std::size_t from = any(), count = std::min(run_length(from), room());
        const std::size_t to = rng.one_in(2) ? from + count : rng.below(ops().size() + 1);
        std::vector<Op> run(ops().begin() + at(from), ops().begin() + at(from + count));
        const auto step = static_cast<std::uint32_t>(rng.below(2) * rng.below(4)); // the copy may use other slots
        for (Op &op : run)
            if (op_has_slot(op.kind)) op.slot = (op.slot + step) % kOpInputSlots;
        ops().insert(ops().begin() + at(to), run.begin(), run.end());
        return true;
    }

    bool swap()
    {
        if (ops().size() < 2) return false;
        std::swap(ops()[any()], ops()[any()]);
        return true;
    }

    // The index of an op that the predicate holds for, searched from a random place on; the number of ops if there is
    // none.
    template <typename Predicate> std::size_t find(Predicate holds)
    {
        if (ops().empty()) return 0;
        const std::size_t start = any();
        for (std::size_t i = 0; i < ops().size(); ++i)
            if (const std::size_t index = (start + i) % ops().size(); holds(ops()[index])) return index;
        return ops().size();
    }

    static bool has_size(const Op &op) { return stress::op_size_max(op.kind) != 0; }
    static bool has_stop(const Op &op) { return op_stop(op).point != 0; }

    bool size()
    {
        const std::size_t index = find(has_size);
        if (index == ops().size()) return false;
        Op op = ops()[index];
        op.size48 = draw_size(shape, rng) & kOpSizeMask;
        return set(index, op);
    }

    bool size_step()
    {
        const std::size_t index = find(has_size);
        if (index == ops().size()) return false;
        Op op = ops()[index];
        std::size_t size = op_size(op);
        switch (rng.below(6)) {
        case 0: size += 1; break;
        case 1: size -= 1; break;
        case 2: size += 16; break;
        case 3: size -= 16; break;
        default: size = rng.one_in(2) ? size * 2 : size / 2; break;
        }
        op.size48 = size & kOpSizeMask;
        return set(index, op);
    }

    bool slot()
    {
        const std::size_t index = find([](const Op &op) { return op_has_slot(op.kind); });
        if (index == ops().size()) return false;
        Op op = ops()[index];
        op.slot = draw_slot(input, index, rng);
        return set(index, op);
    }

    bool kind()
    {
        if (ops().empty()) return false;
        const std::size_t index = any();
        Op op = ops()[index];
        op.kind = draw_kind(rng);
        op.arg = draw_argument(op.kind, rng);
        if (op_has_slot(op.kind) && !op_has_slot(ops()[index].kind)) op.slot = draw_slot(input, index, rng);
        if (op_size(op) == 0 && has_size(op)) op.size48 = draw_size(shape, rng) & kOpSizeMask;
        return set(index, op);
    }

    bool pair()
    {
        if (room() == 0) return false;
        const std::size_t from = find([](const Op &op) { return op_allocates(op.kind); });
        if (from == ops().size()) return false;
        Op op = stress::op_make(rng.one_in(4) ? OpKind::FreeSized : OpKind::Free, ops()[from].slot);
        op.thread = rng.one_in(2) ? ops()[from].thread : static_cast<std::uint16_t>(rng.below(input.threads));
        const std::size_t to = from + 1 + rng.below(ops().size() - from);
        ops().insert(ops().begin() + at(to), op_input_normalise(op, input.threads, shape));
        return true;
    }

    bool align()
    {
        const std::size_t index = find([this](const Op &op) {
            Op other = op;
            other.arg = static_cast<std::uint8_t>(op.arg ^ 1);
            return op_input_normalise(other, input.threads, shape).arg != op.arg;
        });
        if (index == ops().size()) return false;
        Op op = ops()[index];
        op.arg = draw_argument(op.kind, rng);
        return set(index, op);
    }

    bool burst()
    {
        if (room() < 2) return false;
        const std::size_t count = 2 + rng.below(std::min<std::size_t>(room() / 2, 24));
        const std::size_t index = rng.below(ops().size() + 1);
        Op op = stress::op_make(rng.one_in(4) ? draw_kind(rng) : OpKind::Malloc, 0, draw_size(shape, rng));
        op.arg = draw_argument(op.kind, rng);
        op.thread = static_cast<std::uint16_t>(rng.below(input.threads));
        const std::uint32_t first = draw_slot(input, index, rng);
        const auto freed_by = static_cast<std::uint16_t>(rng.below(input.threads));
        std::vector<Op> run;
        for (std::size_t i = 0; i < count && run.size() < room(); ++i) {
            op.slot = static_cast<std::uint32_t>(first + i) % kOpInputSlots;
            run.push_back(op_input_normalise(op, input.threads, shape));
        }
        const std::uint64_t order = rng.below(3); // order 0 frees none, 1 frees the first block first, 2 the last
        for (std::size_t i = 0; i < count && order != 0 && run.size() < room(); ++i) {
            Op free = stress::op_make(OpKind::Free, run[order == 1 ? i : count - 1 - i].slot);
            free.thread = freed_by;
            run.push_back(op_input_normalise(free, input.threads, shape));
        }
        ops().insert(ops().begin() + at(index), run.begin(), run.end());
        return true;
    }

    bool alike()
    {
        if (ops().size() < 2) return false;
        const std::size_t from = find([](const Op &op) { return op_allocates(op.kind); });
        if (from == ops().size()) return false;
        const std::size_t to = from + run_length(from);
        for (std::size_t i = from + 1; i < to; ++i) {
            if (!op_allocates(ops()[i].kind)) continue;
            Op op = ops()[i];
            op.size48 = ops()[from].size48;
            if (op.kind == ops()[from].kind) op.arg = ops()[from].arg;
            set(i, op);
        }
        return true;
    }

    bool thread()
    {
        if (shape.threads_max < 2) return false;
        if (input.threads < 2 || rng.one_in(16)) { // changes the number of threads
            input.threads = static_cast<std::uint8_t>(2 + rng.below(shape.threads_max - 1U));
            op_input_normalise(input, shape);
        }
        if (ops().empty()) return true;
        const std::size_t from = any(), count = rng.one_in(2) ? 1 : run_length(from);
        const auto to = static_cast<std::uint16_t>(rng.below(input.threads));
        for (std::size_t i = from; i < from + count; ++i) ops()[i].thread = to;
        return true;
    }

    bool can_stop(const Op &op) const { return op_input_stops(op.kind, shape); }

    OpStop draw_stop()
    {
        return {static_cast<std::uint8_t>(1 + rng.below(rng.one_in(4) ? 40 : 12)),
                static_cast<std::uint8_t>(1 + rng.below(rng.one_in(4) ? 6 : 2))};
    }

    bool set_stop(std::size_t index, OpStop stop)
    {
        Op op = ops()[index];
        op_set_stop(op, stop);
        return set(index, op);
    }

    bool stop_set()
    {
        const std::size_t index = find([this](const Op &op) { return can_stop(op); });
        return index != ops().size() && set_stop(index, draw_stop());
    }

    bool stop_clear()
    {
        const std::size_t index = find(has_stop);
        return index != ops().size() && set_stop(index, {});
    }

    bool stop_move()
    {
        const std::size_t index = find(has_stop);
        if (index == ops().size()) return false;
        OpStop stop = op_stop(ops()[index]);
        const int step = static_cast<int>(1 + rng.below(3)) * (rng.one_in(2) ? 1 : -1);
        const auto moved = [step](std::uint8_t from, int max) {
            return static_cast<std::uint8_t>(std::clamp(from + step, 1, max));
        };
        if (rng.one_in(2)) stop.point = moved(stop.point, kOpStopPointMax);
        else stop.ops = moved(stop.ops, kOpStopOpsMax);
        return set_stop(index, stop);
    }

    bool stops_all()
    {
        const std::size_t from = find([this](const Op &op) { return can_stop(op); });
        if (from == ops().size()) return false;
        const std::size_t to = from + run_length(from);
        for (std::size_t i = from; i < to; ++i)
            if (ops()[i].thread == ops()[from].thread && can_stop(ops()[i])) set_stop(i, draw_stop());
        return true;
    }

    bool meet()
    {
        if (input.threads < 2 || !shape.stops) return false;
        const std::size_t count = 1 + rng.below(6), index = rng.below(ops().size() + 1);
        if (room() < 2 * count + 1) return false;
        const auto maker = static_cast<std::uint16_t>(rng.below(input.threads));
        const auto other = static_cast<std::uint16_t>((maker + 1 + rng.below(input.threads - 1U)) % input.threads);
        const std::uint32_t first = draw_slot(input, index, rng);
        const std::size_t size = draw_size(shape, rng);
        std::vector<Op> run;
        const auto add = [&](Op op, std::uint16_t thread) {
            op.thread = thread;
            run.push_back(op_input_normalise(op, input.threads, shape));
        };
        const auto slot = [&](std::size_t i) { return static_cast<std::uint32_t>(first + i) % kOpInputSlots; };
        for (std::size_t i = 0; i < count; ++i) add(stress::op_make(OpKind::Malloc, slot(i), size), maker);
        Op stops = rng.one_in(4) ? draw_op(input, shape, index, rng) : stress::op_make(OpKind::Renew, 0, 0);
        op_set_stop(stops, {draw_stop().point, static_cast<std::uint8_t>(count)});
        add(stops, maker);
        for (std::size_t i = 0; i < count; ++i) add(stress::op_make(OpKind::Free, slot(i)), other);
        ops().insert(ops().begin() + at(index), run.begin(), run.end());
        return true;
    }
};

} // namespace

bool mutate_as(Mutation mutation, OpInput &input, const OpShape &shape, Rng &rng)
{
    Change change{input, shape, rng};
    switch (mutation) {
    case Mutation::Insert: return change.insert();
    case Mutation::Remove: return change.remove();
    case Mutation::Duplicate: return change.duplicate();
    case Mutation::Swap: return change.swap();
    case Mutation::Size: return change.size();
    case Mutation::SizeStep: return change.size_step();
    case Mutation::Slot: return change.slot();
    case Mutation::Kind: return change.kind();
    case Mutation::Pair: return change.pair();
    case Mutation::Align: return change.align();
    case Mutation::Burst: return change.burst();
    case Mutation::Alike: return change.alike();
    case Mutation::Thread: return change.thread();
    case Mutation::StopSet: return change.stop_set();
    case Mutation::StopClear: return change.stop_clear();
    case Mutation::StopMove: return change.stop_move();
    case Mutation::StopsAll: return change.stops_all();
    case Mutation::Meet: return change.meet();
    }
    return false;
}

void mutate(OpInput &input, const OpShape &shape, std::size_t ops_max, Rng &rng)
{
    constexpr int tries_max = 32;
    op_input_normalise(input, shape);
    const std::uint64_t wanted = 1 + rng.below(4);
    std::uint64_t done = 0;
    for (int i = 0; i < tries_max && done < wanted; ++i)
        done += mutate_as(static_cast<Mutation>(rng.below(kMutationCount)), input, shape, rng) ? 1 : 0;
    if (input.ops.empty()) input.ops.push_back(draw_op(input, shape, 0, rng));
    if (input.ops.size() > ops_max) input.ops.resize(ops_max);
}

OpInput cross_over(const OpInput &a, const OpInput &b, const OpShape &shape, std::size_t ops_max, Rng &rng)
{
    OpInput child;
    child.threads = std::max(a.threads, b.threads);
    const auto append = [](std::vector<Op> &out, const std::vector<Op> &from, std::size_t first, std::size_t count) {
        out.insert(out.end(), from.begin() + at(first), from.begin() + at(first + count));
    };
    if (rng.one_in(2) || a.ops.empty()) { // the head of one input, the tail of the other
        const std::size_t head = rng.below(a.ops.size() + 1), tail = rng.below(b.ops.size() + 1);
        append(child.ops, a.ops, 0, head);
        append(child.ops, b.ops, tail, b.ops.size() - tail);
    } else { // runs of both inputs, in turn
        constexpr std::size_t run_max = 12;
        for (std::size_t i = 0, j = 0; (i < a.ops.size() || j < b.ops.size()) && child.ops.size() < ops_max;) {
            const std::size_t from_a = std::min(a.ops.size() - i, rng.below(run_max));
            const std::size_t from_b = std::min(b.ops.size() - j, rng.below(run_max));
            append(child.ops, a.ops, i, from_a);
            append(child.ops, b.ops, j, from_b);
            i += from_a;
            j += from_b;
        }
    }
    if (child.ops.size() > ops_max) child.ops.resize(ops_max);
    op_input_normalise(child, shape);
    return child;
}

} // namespace fuzz
