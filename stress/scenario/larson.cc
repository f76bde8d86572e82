// Larson: a server whose workers come and go. Each thread replaces random blocks in its window; after
// `rounds` times over the window a fresh thread takes the window over and the old one ends. The first
// windows are filled by the main thread.
//
// So most blocks are freed by another thread than allocated them, and often after that thread is gone.
// Finds lost remote frees, heaps of ended threads that nobody adopts (growth), adoption races, and
// thread-exit code that gives back what is still live.
//
// Checked runs replace one block in about sixteen through calloc, aligned_alloc, posix_memalign or realloc;
// which ones the seed decides. Unchecked runs are the classic: free and malloc only.
#include "scenario/larson.h"

#include "engine/mapped.h"
#include "engine/mix.h"
#include "engine/run.h"

namespace stress {
namespace {

struct Window {
    Mapped<Block> chunks;
    Mix mix;
    const Options *options;
};

// One block gives way to another; false when the run is to stop.
bool replace(Seat &seat, Window &window)
{
    const Options &o = *window.options;
    Block &victim = window.chunks[seat.rng.below(window.chunks.size())];
    if (!seat.interp.checks()) {
        const std::size_t size_bytes = seat.rng.between(o.min_size_bytes, o.max_size_bytes);
        return seat.interp.release(victim) && seat.interp.allocate({Kind::Malloc, size_bytes, 0}, victim);
    }
    if (seat.rng.below(100) < window.mix.realloc_percent)
        return seat.interp.reallocate(victim, seat.rng.between(o.min_size_bytes, o.max_size_bytes));
    const Request request = mix_draw(window.mix, seat.rng, o.min_size_bytes, o.max_size_bytes);
    return seat.interp.release(victim) && seat.interp.allocate(request, victim);
}

Outcome live_one_life(Seat &seat, void *argument)
{
    Window &window = *static_cast<Window *>(argument);
    const std::uint64_t replacements = window.options->rounds * window.chunks.size();
    for (std::uint64_t i = 0; i < replacements; ++i)
        if (!seat.go_on() || !replace(seat, window)) return Outcome::Done;
    return seat.go_on() ? Outcome::Successor : Outcome::Done;
}

bool fill(Seat &seat, Window &window)
{
    for (Block &chunk : window.chunks) {
        const std::size_t size_bytes = seat.rng.between(window.options->min_size_bytes, window.options->max_size_bytes);
        if (!seat.interp.allocate({Kind::Malloc, size_bytes, 0}, chunk)) return false;
    }
    return true;
}

}  // namespace

void larson_run(Run &run)
{
    Mapped<Window> windows(run.seats().size());
    for (std::size_t i = 0; i < windows.size(); ++i) {
        windows[i].chunks = Mapped<Block>(run.options.chunks);
        windows[i].mix = mix_mostly_malloc(run.options.strict);
        windows[i].options = &run.options;
        if (!fill(run.seat(i), windows[i])) return;
    }
    run.phase_begin(1, windows.size());
    for (std::size_t i = 0; i < windows.size() && !run.failed(); ++i)
        run.start(run.seat(i), live_one_life, &windows[i]);
    run.phase_end();
    for (std::size_t i = 0; i < windows.size(); ++i)
        for (Block &chunk : windows[i].chunks)
            if (run.failed() || (chunk.start != nullptr && !run.seat(i).interp.release(chunk))) return;
}

}  // namespace stress
