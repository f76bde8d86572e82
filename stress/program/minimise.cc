#include "program/minimise.h"
#include "program/fold.h"

#include <algorithm>
#include <cstring>

namespace stress {
namespace {

class Minimiser {
  public:
    Minimiser(Program program, const Minimise &how) : best_(std::move(program)), how_(how) {}

    Program run()
    {
        if (!forget_links()) return std::move(best_);
        if (accept({}, 1)) return std::move(best_);  // it fails without any op
        prefix();
        threads();
        prefix();
        for (bool again = how_.phases; again && !how_.give_up();) {
            again = fold_segments(best_.ops.size() / 16);
            again |= ddmin(best_.ops.size() / 64);
        }
        fold();
        for (bool again = true; again && !how_.give_up();) {
            again = ddmin();
            again |= threads();
            again |= fold();
            again |= fold_segments();
            again |= simplify();
            again |= unroll();
            again |= forget_laps();
        }
        renumber_slots();
        return std::move(best_);
    }

  private:
    bool accept(OpList ops, std::uint32_t threads = 0)
    {
        if (how_.give_up()) return false;
        Program trial = settings();
        if (threads != 0) trial.threads = threads;
        repeats_clamp(ops);
        trial.ops = std::move(ops);
        if (trial.ops_limit != 0) trial.ops_limit = ops_for_laps(trial);
        if (!how_.fails(trial)) return false;
        best_ = std::move(trial);
        how_.progress(best_);
        return true;
    }

    // The limit by which laps share out the ops, which is counted by thread.
    static std::uint64_t ops_for_laps(const Program &program)
    {
        std::string note;
        std::vector<std::uint64_t, MappedAllocator<std::uint64_t>> counts(program.threads);
        for (const Op &op : repeats_expand(program.ops, note)) ++counts[op.thread];
        return std::max<std::uint64_t>(1, *std::max_element(counts.begin(), counts.end())) * program.threads;
    }

    // The best program so far, without its ops.
    Program settings() const
    {
        Program copy;
        copy.threads = best_.threads;
        copy.seed = best_.seed;
        copy.schedule = best_.schedule;
        copy.check = best_.check;
        copy.strict = best_.strict;
        copy.laps = best_.laps;
        copy.ops_limit = best_.ops_limit;
        copy.rule = best_.rule;
        copy.allocator = best_.allocator;
        return copy;
    }

    // The links of a recorded run fit only the complete list of its ops. False: without the links it does not fail.
    bool forget_links()
    {
        Program plain = settings();
        plain.ops = best_.ops;
        for (Op &op : plain.ops) op.link = 0;
        plain.laps = 1;
        plain.ops_limit = 0;
        if (!how_.fails(plain)) {
            plain.laps = best_.laps; // the laws are checked between laps
            plain.ops_limit = best_.ops_limit;
            if (!how_.fails(plain)) return false;
        }
        best_ = std::move(plain);
        return true;
    }

    // If a repeat was found, a few ops may be enough: writes its rounds out, and then reduces them.
    bool unroll()
    {
        constexpr std::size_t few = 256;
        std::string note;
        OpList ops = repeats_expand(best_.ops, note);
        if (ops.size() == best_.ops.size() || ops.size() > few) return false;
        Program before = settings();
        before.ops = best_.ops;
        if (!accept(std::move(ops))) return false;
        ddmin();
        if (best_.ops.size() < before.ops.size()) return true;
        best_ = std::move(before);
        return false;
    }

    bool forget_laps()
    {
        if (best_.laps == 1 && best_.ops_limit == 0) return false;
        Program trial = settings();
        trial.ops = best_.ops;
        trial.laps = 1;
        trial.ops_limit = 0;
        if (how_.give_up() || !how_.fails(trial)) return false;
        best_ = std::move(trial);
        return true;
    }

    OpList head(std::size_t count) const
    {
        return {best_.ops.begin(), best_.ops.begin() + static_cast<std::ptrdiff_t>(count)};
    }

    // Whether a search between two numbers is close enough. Each try of a long program is costly, so a long one needs
    // less precision.
    static bool near(std::size_t low, std::size_t high)
    {
        constexpr std::size_t dear = 16384;
        return low >= high || (high > dear && high - low < high / 32);
    }

    bool prefix()
    {
        const std::size_t before = best_.ops.size();
        for (std::size_t low = 0; !near(low, best_.ops.size());) {
            const std::size_t middle = low + (best_.ops.size() - low) / 2;
            if (!accept(head(middle))) low = middle + 1;
            if (how_.give_up()) break;
        }
        return best_.ops.size() < before;
    }

    // Changes `from` into `to`, and closes the gap in the numbers.
    bool merge(std::uint32_t from, std::uint32_t to)
    {
        OpList ops = best_.ops;
        for (Op &op : ops) {
            if (op.thread == from) op.thread = static_cast<std::uint16_t>(to);
            else if (op.thread > from) --op.thread;
        }
        return accept(std::move(ops), best_.threads - 1);
    }

    bool threads()
    {
        if (best_.threads == 1) return false;
        OpList ops = best_.ops;
        for (Op &op : ops) op.thread = 0;
        if (accept(std::move(ops), 1)) return true;
        const std::uint32_t before = best_.threads;
        for (std::uint32_t from = best_.threads - 1; from > 0; --from)
            for (std::uint32_t to = 0; to < from && from < best_.threads; ++to)
                if (merge(from, to)) break;
        return best_.threads < before;
    }

    // Turns the whole program into one repeat.
    bool fold()
    {
        constexpr std::size_t worth_it = 6;
        if (best_.ops.size() < worth_it) return false;
        std::string note;
        const std::size_t length = 2 * repeats_expand(best_.ops, note).size();
        // Few rounds are quick to try, and enough for most failures. Many rounds take a second per try, so only the
        // likely bodies are tried with many.
        constexpr std::size_t few = 2048, many = 100'000, most = 500'000, all = SIZE_MAX, likely = 40;
        return fold_to(std::min(length, few), 0, all) || (length > few && fold_to(std::min(length, many), 0, likely)) ||
               (length > many && fold_to(std::min(length, most), 0, likely)) ||
               (length > few && fold_to(std::min(length, many), likely, all));
    }

    // Tries the candidates [from, to), repeated this many times.
    bool fold_to(std::size_t rounds_max, std::size_t from, std::size_t to)
    {
        auto candidates = fold_candidates(best_.ops, rounds_max);
        for (std::size_t i = from; i < std::min(to, candidates.size()) && !how_.give_up(); ++i) {
            if (candidates[i].size() >= best_.ops.size() || !accept(std::move(candidates[i]))) continue;
            rounds(0);
            return true;
        }
        return false;
    }

    // Turns parts of it into repeats.
    bool fold_segments(std::size_t size_min = 0)
    {
        constexpr std::size_t width_max = 4;
        const std::size_t segment_min = std::max<std::size_t>(size_min, 3);
        bool any = false;
        for (std::size_t size = best_.ops.size(); size >= segment_min; size = size * 2 / 3) {
            for (std::size_t from = 0; from + size <= best_.ops.size() && !how_.give_up();) {
                bool folded = false;
                for (std::size_t width = 1; width <= width_max && width + 1 < size && !folded; ++width)
                    for (FoldSlots slots : {FoldSlots::Same, FoldSlots::Fresh, FoldSlots::Next}) {
                        if (slots == FoldSlots::Next && (!how_.phases || width > 1)) continue;
                        OpList ops = fold_segment(best_.ops, from, from + size, width, slots);
                        folded = !ops.empty() && accept(std::move(ops));
                        if (folded) break;
                    }
                any |= folded;
                from += folded ? 1 : std::max<std::size_t>(1, size / 2);
            }
        }
        return any;
    }

    // Removes chunks of at least this size.
    bool ddmin(std::size_t chunk_min = 1)
    {
        const std::size_t before = best_.ops.size();
        for (std::size_t chunk = std::max<std::size_t>(1, before / 2);; chunk /= 2) {
            for (std::size_t from = 0; from < best_.ops.size() && !how_.give_up();) {
                OpList ops = best_.ops;
                ops_remove(ops, from, std::min(from + chunk, ops.size()));
                if (!accept(std::move(ops))) from += chunk;
            }
            if (chunk <= chunk_min || how_.give_up()) break;
        }
        return best_.ops.size() < before;
    }

    bool with(std::size_t index, const Op &op)
    {
        if (std::memcmp(&op, &best_.ops[index], sizeof op) == 0) return false;
        OpList ops = best_.ops;
        ops[index] = op;
        return accept(std::move(ops));
    }

    // Finds the smallest number of rounds that still fails.
    bool rounds(std::size_t index)
    {
        const std::size_t before = op_size(best_.ops[index]);
        for (std::size_t low = 1; !near(low, op_size(best_.ops[index])) && !how_.give_up();) {
            const std::size_t middle = low + (op_size(best_.ops[index]) - low) / 2;
            Op op = best_.ops[index];
            op.size48 = middle;
            if (!with(index, op)) low = middle + 1;
        }
        return op_size(best_.ops[index]) < before;
    }

    bool simpler_kind(std::size_t index)
    {
        Op op = best_.ops[index];
        const bool aligned =
            op.kind == OpKind::AlignedAlloc || op.kind == OpKind::PosixMemalign || op.kind == OpKind::Memalign;
        if (op_frees(op.kind)) op.kind = OpKind::Free;
        else if (op_allocates(op.kind)) op.kind = OpKind::Malloc;
        if (op.kind == OpKind::Malloc) op.arg = 0;
        if (with(index, op)) return true;
        if (!aligned || best_.ops[index].kind == OpKind::AlignedAlloc) return false;
        op = best_.ops[index];
        op.kind = OpKind::AlignedAlloc;
        return with(index, op);
    }

    bool simpler_size(std::size_t index)
    {
        static constexpr std::size_t sizes[] = {1,    8,    16,   24,    64,    100,   128,    256,     512,
                                                1000, 2000, 4096, 10000, 32768, 65536, 100000, 1 << 20, 4 << 20};
        for (std::size_t size : sizes) {
            Op op = best_.ops[index];
            if (size >= op_size(op) || how_.give_up()) return false;
            op.size48 = size;
            if (with(index, op)) return true;
        }
        return false;
    }

    bool simpler_argument(std::size_t index)
    {
        for (std::uint8_t arg = 0; arg < best_.ops[index].arg && !how_.give_up();
             arg = arg < 4 ? static_cast<std::uint8_t>(arg + 1) : static_cast<std::uint8_t>(arg * 2)) {
            Op op = best_.ops[index];
            op.arg = arg;
            if (with(index, op)) return true;
            if (arg > 127) break;
        }
        return false;
    }

    bool simplify()
    {
        constexpr std::size_t few = 64;
        bool any = all_alike();
        if (best_.ops.size() > few) return any;
        for (std::size_t i = 0; i < best_.ops.size() && !how_.give_up(); ++i) {
            if (best_.ops[i].kind == OpKind::Repeat) {
                any |= rounds(i);
                any |= simpler_argument(i);
                continue;
            }
            any |= simpler_kind(i);
            any |= simpler_size(i);
            any |= simpler_argument(i);
            if (best_.ops[i].thread != 0) {
                Op op = best_.ops[i];
                op.thread = 0;
                any |= with(i, op);
            }
        }
        return any;
    }

    // Makes all allocations alike, if there are too many to try each.
    bool all_alike()
    {
        for (std::size_t size : {std::size_t{16}, std::size_t{100}, std::size_t{1000}}) {
            OpList ops = best_.ops;
            bool changed = false;
            for (Op &op : ops) {
                if (!op_allocates(op.kind) || op.kind == OpKind::Realloc || op.kind == OpKind::ReallocArray) continue;
                changed |= op.kind != OpKind::Malloc || op_size(op) > size;
                op = [&] {
                    Op plain = op_make(OpKind::Malloc, op.slot, size);
                    plain.thread = op.thread;
                    return plain;
                }();
            }
            if (!changed) return false;
            if (accept(std::move(ops))) return true;
        }
        return false;
    }

    void renumber_slots()
    {
        std::vector<std::uint32_t, MappedAllocator<std::uint32_t>> numbers(kOpSlotsMax);
        std::uint32_t count = 0;
        OpList ops = best_.ops;
        for (Op &op : ops) {
            if (!op_has_slot(op.kind)) continue;
            if (numbers[op.slot] == 0) numbers[op.slot] = ++count;
            op.slot = numbers[op.slot] - 1;
        }
        if (ops.size() != 0 && std::memcmp(ops.data(), best_.ops.data(), ops.size() * sizeof(Op)) != 0)
            accept(std::move(ops));
    }

    Program best_;
    const Minimise &how_;
};

} // namespace

void ops_remove(OpList &ops, std::size_t from, std::size_t to)
{
    for (std::size_t i = 0; i < from; ++i) {
        if (ops[i].kind != OpKind::Repeat) continue;
        const std::size_t start = i + 1, end = i + 1 + ops[i].slot;
        const std::size_t low = std::max(start, from), high = std::min(end, to);
        if (low < high) ops[i].slot -= static_cast<std::uint32_t>(high - low);
    }
    ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(from), ops.begin() + static_cast<std::ptrdiff_t>(to));
}

Program minimise(Program program, const Minimise &how)
{
    return Minimiser(std::move(program), how).run();
}

} // namespace stress
