#include "explore/world.h"

#include <hakmem/hakmem.h>
#include <hakmem/validate.h>

#include "explore/inside/inside.h"
#include "explore/inside/inside_fork.h"

namespace stress {
namespace {

// Where a block is marked: in its first words, where a free list would have its links; at its end; and every 4 KiB or,
// in blocks above a page of the allocator, every 64 KiB. It is this sparse because all touched memory must be restored.
constexpr std::size_t kStrideSmall = 4096, kStrideLarge = 65536, kHeadWords = 4;

using Word = std::uint64_t;

template <class Function> bool each_word(unsigned char *start, std::size_t size_bytes, Function function)
{
    auto *words = reinterpret_cast<Word *>(start);
    const std::size_t count = size_bytes / sizeof(Word);
    for (std::size_t i = 0; i < count && i < kHeadWords; ++i)
        if (!function(words[i])) return false;
    const std::size_t stride = (size_bytes > kStrideLarge ? kStrideLarge : kStrideSmall) / sizeof(Word);
    for (std::size_t i = stride; i < count; i += stride)
        if (!function(words[i])) return false;
    return count <= kHeadWords || function(words[count - 1]);
}

Word word_of(std::uint32_t mark)
{
    return 0x5eed000000000001ULL * mark;
}

// While it lives, the calling thread is inside the call.
class InCall {
  public:
    InCall(World &world, World::Call::Kind kind, std::size_t size_bytes = 0)
        : call_(world.now.calls[world.runner.fibers().current()])
    {
        call_ = {kind, size_bytes};
    }
    ~InCall() { call_ = {World::Call::Kind::None, 0}; }
    InCall(const InCall &) = delete;
    InCall &operator=(const InCall &) = delete;

  private:
    World::Call &call_;
};

void *allocate(World &world, std::size_t size_bytes, bool zeroed)
{
    const InCall call(world, World::Call::Kind::Take, size_bytes);
    return zeroed ? hak_calloc(1, size_bytes) : hak_malloc(size_bytes);
}

} // namespace

bool World::take(unsigned place, std::size_t size_bytes, bool zeroed)
{
    return hold(place, allocate(*this, size_bytes, zeroed), size_bytes, zeroed);
}

bool World::take_in(unsigned place, hak_heap *heap, std::size_t size_bytes)
{
    void *block = nullptr;
    {
        const InCall call(*this, Call::Kind::Take, size_bytes);
        block = hak_heap_malloc(heap, size_bytes);
    }
    return hold(place, block, size_bytes, false);
}

void World::resize(unsigned place, std::size_t size_bytes)
{
    check(place);
    Place &held = now.places[place];
    unsigned char *start = held.start;
    held.start = nullptr;
    const InCall call(*this, Call::Kind::Take, size_bytes);
    hold(place, hak_realloc(start, size_bytes), size_bytes, false);
}

void World::forget(unsigned first, unsigned count)
{
    for (unsigned place = first; place < first + count; ++place) now.places[place].start = nullptr;
}

bool World::hold(unsigned place, void *block, std::size_t size_bytes, bool zeroed)
{
    auto *start = static_cast<unsigned char *>(block);
    if (start == nullptr) {
        runner.fail("memory", "malloc(%zu) gave NULL, although the system has memory", size_bytes);
        return false;
    }
    for (unsigned other = 0; other < kPlaces; ++other) {
        const Place &held = now.places[other];
        if (held.start == nullptr) continue;
        if (held.start >= start + size_bytes || start >= held.start + held.size_bytes) continue;
        runner.fail("overlap", "the block for place %u, %zu bytes at %p, overlaps that of place %u, %zu bytes at %p",
                    place, size_bytes, static_cast<void *>(start), other, held.size_bytes,
                    static_cast<void *>(held.start));
        return false;
    }
    if (zeroed && !each_word(start, size_bytes, [](Word word) { return word == 0; }))
        runner.fail("zero", "calloc(1, %zu) gave memory that is not zero", size_bytes);
    const std::uint32_t mark = ++now.marks;
    each_word(start, size_bytes, [mark](Word &word) {
        word = word_of(mark);
        return true;
    });
    now.places[place] = {start, size_bytes, mark};
    return true;
}

void World::check(unsigned place)
{
    const Place &held = now.places[place];
    if (held.start == nullptr) return;
    Word found = 0;
    const Word wanted = word_of(held.mark);
    if (!each_word(held.start, held.size_bytes, [&](Word word) {
            found = word;
            return word == wanted;
        }))
        runner.fail("content", "the block of place %u, %zu bytes at %p, holds %llx instead of %llx", place,
                    held.size_bytes, static_cast<void *>(held.start), static_cast<unsigned long long>(found),
                    static_cast<unsigned long long>(wanted));
}

void World::give(unsigned place)
{
    check(place);
    unsigned char *start = now.places[place].start;
    now.places[place].start = nullptr;
    const InCall call(*this, Call::Kind::Give, now.places[place].size_bytes);
    if (start != nullptr) hak_free(start);
}

void World::give_all()
{
    for (unsigned place = 0; place < kPlaces; ++place) give(place);
}

void World::in(unsigned thread, void (*function)(World &))
{
    if (!runner.failed()) runner.call(thread, [this, function] { function(*this); });
}

void World::thread_end()
{
    const InCall call(*this, Call::Kind::End);
    inside_thread_end();
}

void World::renew(unsigned thread)
{
    runner.call(thread, [] { inside_thread_end(); });
    runner.fibers().renew(thread);
}

void World::purge()
{
    const InCall call(*this, Call::Kind::Purge);
    hak_purge();
}

void World::purge_all()
{
    const InCall call(*this, Call::Kind::Purge);
    hak_purge_all();
}

void World::laws()
{
    hak_inspect_report report;
    if (!hak_inspect(&report)) runner.fail("law", "%s", report.broken_law);
}

void World::heaps_apart()
{
    const void *heaps[Fibers::kMax] = {};
    for (unsigned thread = 0; thread <= threads && !runner.failed(); ++thread) {
        runner.call(thread, [&] { heaps[thread] = inside_heap(); });
        for (unsigned other = 0; other < thread; ++other)
            if (heaps[thread] != nullptr && heaps[thread] == heaps[other])
                runner.fail("law", "law 4: threads %u and %u hold one heap", other, thread);
    }
}

void World::fork()
{
    runner.alone();
    if (!inside_fork_look()) runner.fail("scenario", "there are more heaps than inside_fork.c notes");
    inside_fork_child();
}

} // namespace stress
