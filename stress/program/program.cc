#include "program/program.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/base/build.h"
#include "engine/subject/fault_os.h"

namespace stress {
namespace {

// One thread's part of the ops.
struct Part {
    OpList ops;
    std::size_t next_index = 0, count = 0; // of the ops, before they are there

    bool next(Op &op)
    {
        if (next_index == ops.size()) return false;
        op = ops[next_index++];
        return true;
    }
};

std::size_t slot_count(const OpList &ops)
{
    std::size_t count = 1;
    for (const Op &op : ops)
        if (op_has_slot(op.kind)) count = std::max<std::size_t>(count, op.slot + 1);
    return count;
}

void append_rounds(OpList &out, std::span<const Op> body, const Op &repeat, std::string &note)
{
    const std::size_t rounds = op_size(repeat);
    for (std::size_t round = 0; round < rounds; ++round) {
        if (out.size() + body.size() > kProgramExpandedMax) {
            note = "repeats were cut after " + std::to_string(out.size()) + " ops, in round " + std::to_string(round) +
                   " of " + std::to_string(rounds);
            return;
        }
        for (Op op : body) {
            if (op.kind == OpKind::Repeat) continue;
            if (op_has_slot(op.kind))
                op.slot = static_cast<std::uint32_t>((op.slot + round * repeat.arg) % kOpSlotsMax);
            out.push_back(op);
        }
    }
}

}  // namespace

void repeats_clamp(OpList &ops)
{
    std::vector<std::size_t, MappedAllocator<std::size_t>> ends{ops.size()};  // ends of the bodies that we are in
    for (std::size_t i = 0; i < ops.size(); ++i) {
        while (i >= ends.back()) ends.pop_back(); // never the first
        if (ops[i].kind != OpKind::Repeat) continue;
        ops[i].slot = static_cast<std::uint32_t>(std::min<std::size_t>(ops[i].slot, ends.back() - i - 1));
        ends.push_back(i + 1 + ops[i].slot);
    }
}

OpList repeats_expand(const OpList &ops, std::string &note)
{
    OpList out;
    out.reserve(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kind != OpKind::Repeat) {
            out.push_back(ops[i]);
            continue;
        }
        const std::size_t body = std::min<std::size_t>(ops[i].slot, ops.size() - i - 1);
        append_rounds(out, {ops.data() + i + 1, body}, ops[i], note);
        i += body;
    }
    return out;
}

void links_number(OpList &ops)
{
    constexpr std::uint32_t nobody = ~0U, several = ~1U;
    struct Slot {
        std::uint32_t thread = nobody, link = 0;
    };
    std::vector<Slot, MappedAllocator<Slot>> slots(slot_count(ops));
    for (const Op &op : ops) {
        if (!op_has_slot(op.kind)) continue;
        std::uint32_t &thread = slots[op.slot].thread;
        thread = thread == nobody || thread == op.thread ? op.thread : several;
    }
    for (Op &op : ops) {
        op.link = 0;
        if (!op_has_slot(op.kind) || slots[op.slot].thread != several) continue;
        slots[op.slot].link = link_next(static_cast<std::uint16_t>(slots[op.slot].link));
        op.link = static_cast<std::uint16_t>(slots[op.slot].link);
    }
}

OpList links_merge(const std::vector<OpList> &threads)
{
    std::size_t slots = 1;
    for (const OpList &ops : threads) slots = std::max(slots, slot_count(ops));
    std::vector<std::uint16_t, MappedAllocator<std::uint16_t>> turns(slots);
    std::vector<std::span<const Op>> left(threads.begin(), threads.end());
    OpList out;
    for (bool moved = true; moved;) {
        moved = false;
        for (std::span<const Op> &ops : left) {
            if (ops.empty()) continue;
            const Op &op = ops.front();
            if (op.link != 0 && op.link != link_next(turns[op.slot])) continue;
            if (op.link != 0) turns[op.slot] = static_cast<std::uint16_t>(op.link);
            out.push_back(std::exchange(ops, ops.subspan(1)).front());
            moved = true;
        }
    }
    for (const std::span<const Op> ops : left)
        if (!ops.empty()) out.push_back(ops.front());
    return out;
}

std::string links_fault(const OpList &ops, std::uint32_t threads)
{
    struct Slot {
        bool used = false;
        std::uint16_t thread = 0, link = 0, turn = 0;  // of the last op on the slot; the last link that was done
    };
    std::vector<Slot, MappedAllocator<Slot>> slots(slot_count(ops));
    std::vector<bool> stuck(threads);
    bool ending = false;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const Op &op = ops[i];
        const auto fault = [i](const char *what) { return "op " + std::to_string(i + 1) + ": " + what; };
        if (op.kind == OpKind::Repeat) return fault("links are kept, so nothing can be repeated");
        if (stuck[op.thread]) return fault("it follows an op of its thread whose turn never comes");
        if (!op_has_slot(op.kind)) {
            if (op.link != 0) return fault("it has a link and no slot");
            if (ending) return fault("it follows ops whose turn never comes");
            continue;
        }
        Slot &slot = slots[op.slot];
        if (op.link != 0 && op.link != link_next(slot.turn)) {
            stuck[op.thread] = ending = true;
            continue;
        }
        if (ending) return fault("it follows ops whose turn never comes");
        if (slot.used && slot.thread != op.thread && (slot.link == 0 || op.link == 0))
            return fault("its slot changes the thread without a link");
        slot = {true, op.thread, static_cast<std::uint16_t>(op.link),
                op.link != 0 ? static_cast<std::uint16_t>(op.link) : slot.turn};
    }
    return "";
}

Plan plan_of(const Program &program, std::string &note)
{
    OpList ops = repeats_expand(program.ops, note);
    if (!program.links_kept) links_number(ops);
    Plan plan;
    plan.slot_count = slot_count(ops);
    bool can_be_refused = false;
    std::vector<Part> parts(program.threads);
    for (const Op &op : ops) {
        ++parts[op.thread].count;
        plan.directs_forks |= op.kind == OpKind::Fork;
        plan.traps_os |= op.kind == OpKind::FailOs;
        can_be_refused |= op.kind == OpKind::FailOs || (kSanitized && op.kind == OpKind::LimitMemory);
    }
    if (can_be_refused) plan.skip = fault_os_refusal();
    plan.traps_os &= plan.skip.empty();
    for (Part &part : parts) part.ops.reserve(part.count);
    for (const Op &op : ops) parts[op.thread].ops.push_back(op);
    for (Part &part : parts) plan.generators.push_back(generator_of(std::move(part)));
    return plan;
}

}  // namespace stress
