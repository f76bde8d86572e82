// Larson: a server whose workers come and go. Each thread replaces random blocks in its window. When it has replaced
// the window `rounds` times over, it ends and a fresh thread takes the window over. The neighbour fills the first
// window.
//
// So most blocks are freed by a thread that did not allocate them, often after their allocating thread is gone. Finds
// lost remote frees, heaps of ended threads that nobody adopts (growth), adoption races, and thread-exit code that
// returns memory that is still live.
//
// Checked runs replace one block in about sixteen through calloc, the aligned calls or realloc; the seed decides which.
// Unchecked runs are the classic benchmark: only malloc and free.
#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/larson_options.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

// The state of a slot of the window.
enum Chunk : unsigned char { Awaited, Empty, Live };

struct Larson {
    Rng rng;
    Mix mix;
    bool plain; // only malloc and free, with nothing else drawn
    std::uint32_t first_slot, neighbour_slot; // of this thread's own window, and of the window that it fills
    std::uint64_t replacements_max; // in a thread's life
    std::size_t min_bytes, max_bytes;
    Mapped<Chunk> window;
    std::uint32_t filled = 0;
    std::uint64_t replacements = 0;
    std::uint32_t emptied = 0; // index of the last freed chunk, which is to be replaced
    bool replacing = false;

    bool next(Op &op)
    {
        if (filled < window.size()) {
            // Linked: the neighbour takes the block over.
            op = op_make(OpKind::Malloc, neighbour_slot + filled++, rng.between(min_bytes, max_bytes), 0, 1);
            return true;
        }
        if (replacing) {
            replacing = false;
            const std::uint32_t slot = first_slot + emptied;
            op = plain ? op_make(OpKind::Malloc, slot, rng.between(min_bytes, max_bytes))
                       : mix_allocate(mix, rng, slot, min_bytes, max_bytes);
            window[emptied] = Live;
            return true;
        }
        if (++replacements > replacements_max) {
            replacements = 0;
            op = op_make(OpKind::Renew, 0);
            return true;
        }
        const auto index = static_cast<std::uint32_t>(rng.below(window.size()));
        op = plain ? op_make(OpKind::Free, first_slot + index)
                   : mix_visit_live(mix, rng, first_slot + index, min_bytes, max_bytes);
        if (window[index] == Awaited) op.link = 2;
        window[index] = Live;
        if (op.kind == OpKind::Free) {
            window[index] = Empty;
            emptied = index;
            replacing = true;
        }
        return true;
    }
};

} // namespace

Plan larson_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const auto &own = own_options<LarsonOptions>(o);
    const auto chunks = static_cast<std::uint32_t>(own.chunks);
    Plan plan;
    plan.slot_count = std::size_t{chunks} * setup.seats;
    for (std::uint32_t seat = 0; seat < setup.seats; ++seat) {
        Rng rng = setup.rng(seat);
        const Mix mix = o.check ? mix_few_others(rng, o.strict) : mix_malloc_only();
        plan.generators.push_back(generator_of(Larson{
            .rng = rng,
            .mix = mix,
            .plain = !o.check,
            .first_slot = seat * chunks,
            .neighbour_slot = (seat + 1) % setup.seats * chunks,
            .replacements_max = own.rounds * chunks,
            .min_bytes = o.min_size_bytes,
            .max_bytes = o.max_size_bytes,
            .window = Mapped<Chunk>(chunks),
        }));
    }
    if (!o.check) return plan;
    // Each window is filled, and a thread ends when it has replaced its window: some seat has by then.
    std::uint64_t ops = 0;
    if (__builtin_mul_overflow(own.rounds, std::uint64_t{8} * chunks * setup.seats, &ops)) ops = UINT64_MAX;
    plan.claims = {rule::kOverlap, rule::kContent, {rule::kThread, ops}};
    if (setup.seats > 1) plan.claims.push_back({rule::kHandover, ops});
    return plan;
}

} // namespace stress
