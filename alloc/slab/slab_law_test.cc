// slab_law_test.cc: the law of slabs in random histories: each block is in one place, the owner's books are the sums of its
// slabs', and what a slab leaves says of each page of the system whether it reads as zero.
#include "heap/heap_test_support.h"

#include <map>
#include <set>

extern "C" {
#include "heap/large.h"
#include "os/os.h"
#include "slab/slab.h"
#include "slab/take.h"
#include "slab/trim.h"
#include "superslab/limit.h"
#include "superslab/purge.h"
}

namespace {

struct SlabSaid {
    std::set<block *> live;
    bool leaves_marks = false; // of pages that it did not use
};

class SlabLaw : public testing::Test {
  protected:
    void SetUp() override
    {
        static struct heap *shared = [] { // every registered owner must be the first member of a heap
            auto *made = static_cast<struct heap *>(aligned_alloc(64, sizeof(struct heap)));
            memset(static_cast<void *>(made), 0, sizeof *made);
            EXPECT_TRUE(owner_register(&made->owner));
            return made;
        }();
        own_ = &shared->owner;
        for (uint32_t c = 1; c < CLASS_COUNT; c++) owner_limit_set(own_, c, 1); // each may keep an empty slab
    }
    void TearDown() override
    {
        limit_set(SIZE_MAX);
        pool_purge_all();
    }

    uint32_t bytes_of(const slab *s) const { return sizeclass_bytes(s->class_index); }
    char *pages_of(slab *s) const { return superslab_page_start(superslab_of(s), s); }
    size_t used_of(const slab *s) const { return atomic_load_explicit(&s->used_count, memory_order_relaxed); }
    bool is_limited() const { return own_->has_limit || limit_get() != SIZE_MAX; }

    static bool is_zero(const char *start, size_t bytes)
    {
        return start[0] == 0 && memcmp(start, start + 1, bytes - 1) == 0;
    }
    bool is_told_zero(slab *first, size_t at) const // of the system's page at this offset in the slab
    {
        return (first[at / PAGE_BYTES].hollow_pages >> at % PAGE_BYTES / os_page_bytes() & 1) != 0;
    }

    // --- what is done -----------------------------------------------------------------------------------------

    void make(uint32_t c)
    {
        const uint32_t released = own_->trimmed_pages_released, pages = sizeclass_slab_pages(c);
        const size_t dirty_before = purge_dirty_pages();
        slab *s = slab_make(own_, c);
        ASSERT_NE(s, nullptr);
        ASSERT_FALSE(s->trimmed || s->was_trimmed);
        ASSERT_EQ(s, own_->slabs[c]) << "the newest is the first";
        said_[s].leaves_marks = !own_->has_limit || purge_dirty_pages() == dirty_before;
        wanted_said_ = wanted_said_ || (released != 0 && pages >= released);
        released_said_ = released - std::min(pages, released);
    }

    void take(uint32_t c, bool from_new = false)
    {
        if (own_->slabs[c] == nullptr || from_new) ASSERT_NO_FATAL_FAILURE(make(c));
        slab *s = own_->slabs[c];
        const size_t carved = s->carved_count, used = used_of(s), linked = s->linked_count, bytes = bytes_of(s);
        const bool was_hollow = s->hollow, is_much = owner_used_blocks(own_, c) * bytes >= CARVE_MUCH_BYTES;
        const size_t part = limit_get() != SIZE_MAX ? CARVE_BYTES : TAKE_BYTES_MAX;
        std::vector<block *> list;
        for (block *b = slab_take(s); b != nullptr; b = b->next) list.push_back(b);
        ASSERT_FALSE(list.empty());
        if (linked != 0) ASSERT_EQ(list.size(), linked) << "what others freed comes first, and whole";
        else if (carved != used)
            ASSERT_EQ(list.size(), std::min({carved - used, (size_t)TAKE_MAX, std::max(part / bytes, (size_t)1)}));
        else if (was_hollow) wanted_said_ = wanted_said_ || s->was_trimmed;
        else ASSERT_LE((list.size() - 1) * bytes, is_much && !is_limited() ? TAKE_BYTES_MAX : CARVE_BYTES);
        if (linked == 0 && carved != used) ASSERT_TRUE(std::is_sorted(list.begin(), list.end()));
        for (block *b : list) use(s, b);
        peak_said_ = std::max(peak_said_, owner_used_bytes(own_));
    }

    void use(slab *s, block *b)
    {
        const auto offset = (size_t)((char *)b - slab_start(superslab_of(s), s));
        ASSERT_TRUE(offset % bytes_of(s) == 0 && offset / bytes_of(s) < s->capacity) << "not a block of this slab";
        ASSERT_TRUE(said_[s].live.insert(b).second) << "it is in use";
        memset(static_cast<void *>(b), 0xa5, bytes_of(s));
    }

    void take_one(slab *s)
    {
        block *b = slab_take_one(s);
        ASSERT_EQ(b != nullptr, s->carved_count != said_[s].live.size());
        if (b == nullptr) return;
        use(s, b);
        peak_said_ = std::max(peak_said_, owner_used_bytes(own_));
    }

    std::vector<block *> choose(slab *s, size_t count)
    {
        std::vector<block *> some(said_[s].live.begin(), said_[s].live.end());
        rng_.shuffle(some);
        some.resize(std::min(count, some.size()));
        for (block *b : some) said_[s].live.erase(b);
        return some;
    }
    static block *link(const std::vector<block *> &list)
    {
        for (size_t i = 0; i < list.size(); i++) list[i]->next = i + 1 < list.size() ? list[i + 1] : nullptr;
        return list.empty() ? nullptr : list[0];
    }

    void give_back(slab *s, size_t how)
    {
        const size_t count = rng_.below(3) == 0 ? s->capacity : 1 + rng_.below(s->capacity);
        std::vector<block *> some = choose(s, how == 0 ? 1 : count);
        if (some.empty()) return;
        switch (how) {
        case 0: slab_give_back(s, some[0]); break;
        case 1: slab_give_back_list(s, link(some), some.back(), (uint32_t)some.size()); break;
        default: ASSERT_EQ(slab_give_back_each(link(some)), some.size());
        }
        if (said_[s].live.empty()) expect_ended();
    }

    // At most one slab of a class stays that has no block in use, the last in its list; those that ended say what is zero.
    void expect_ended()
    {
        for (auto at = said_.begin(); at != said_.end();) {
            slab *s = at->first;
            if (!at->second.live.empty() || pagemap_tag(pages_of(s)) != 0) {
                ++at;
                continue;
            }
            if (s->was_trimmed) released_said_ += s->page_count;
            ASSERT_NO_FATAL_FAILURE(expect_remains(s, at->second.leaves_marks));
            at = said_.erase(at);
        }
    }

    // A slab tells of each page of the system that its blocks never touched, and of no page that is not zero. Of one behind the
    // last block it need not tell, and then the next slab does not know either.
    void expect_remains(slab *s, bool leaves_marks)
    {
        const size_t os_bytes = os_page_bytes(), end = slab_colour(s) + (size_t)s->capacity * bytes_of(s);
        const uint64_t dirty = superslab_of(s)->dirty_pages.load(), partial = superslab_of(s)->partial_pages.load();
        for (size_t at = 0; at < s->page_count * PAGE_BYTES; at += os_bytes) {
            const size_t page = s->page_index + at / PAGE_BYTES;
            const bool is_purged = (dirty >> page & 1) == 0, is_partial = (partial >> page & 1) != 0;
            const bool is = is_zero(pages_of(s) + at, os_bytes),
                       told = is_purged || (is_partial && is_told_zero(s, at));
            if (told) ASSERT_TRUE(is) << "told to read as zero at " << at << " of class " << (int)s->class_index;
            if (told || !is) untold_.erase(pages_of(s) + at);
            else if (at >= end) untold_.insert(pages_of(s) + at);
            else if (leaves_marks && !s->was_trimmed)
                ASSERT_TRUE(untold_.count(pages_of(s) + at)) << "not told at " << at;
        }
    }

    void trim()
    {
        own_->used_bytes_peak = 0; // only callers read it
        if (rng_.below(2) == 0) {
            slab_trim_all(own_);
            for (auto &entry : said_) entry.first->trimmed = false;
            ASSERT_EQ(slab_trim_all(own_), 0u) << "it left out a slab to which blocks came back";
        } else if (!slab_trim_is_due(own_)) slab_trim_begin(own_);
        else slab_trim_step(own_);
        peak_said_ = own_->used_bytes_peak;
    }

    void sort(uint32_t c)
    {
        slab_release_empty_of(own_, c);
        expect_ended();
        const slab_sums sums = slab_sort(own_, c);
        uint64_t used = 0, capacity = 0;
        size_t full = SIZE_MAX; // 31sts of a slab, rounded down: slab_sort has as many ranks
        slab *first = own_->slabs[c], *s = first;
        if (s != nullptr) do {
                const size_t now = used_of(s) * 31 / s->capacity;
                ASSERT_LE(now, full) << "the fullest are first";
                full = now, used += used_of(s), capacity += s->capacity, s = s->next;
            } while (s != first);
        ASSERT_EQ(sums.used_count, used);
        ASSERT_EQ(sums.capacity, capacity);
    }

    void discard(slab *s)
    {
        slab_discard(s);
        pagemap_tag_set(pages_of(s), s->page_count, 0);
        pool_free(superslab_of(s), s->page_index, s->page_count, 8);
        said_.erase(s);
    }

    // By giving all blocks back, or as when a heap of the program is destroyed.
    void end_all(bool discards)
    {
        const bool keeps_empty = std::exchange(own_->keeps_empty, false);
        while (slab *s = any()) {
            if (discards) discard(s);
            else give_back(s, 1 + rng_.below(2));
            slab_release_empty(own_);
            expect_ended();
            ASSERT_NO_FATAL_FAILURE(expect_books());
        }
        own_->keeps_empty = keeps_empty;
    }

    void use_run()
    {
        const size_t bytes = PAGE_BYTES + rng_.below(SUPERSLAB_BYTES / 2);
        auto *run = static_cast<char *>(large_alloc(1, bytes, false, true));
        ASSERT_NE(run, nullptr);
        ASSERT_TRUE(is_zero(run, bytes));
        memset(run, 0xa5, bytes);
        large_free(run);
    }

    // --- what holds -------------------------------------------------------------------------------------------

    void expect_books()
    {
        size_t used_bytes = 0, carved_bytes = 0;
        std::map<uint32_t, size_t> used, empty;
        for (auto &[s, said] : said_) {
            const size_t live = said.live.size();
            ASSERT_EQ(used_of(s), live);
            ASSERT_LE(live, s->carved_count);
            ASSERT_FALSE(s->hollow && s->carved_count == s->capacity) << "no block is left on its hollow pages";
            ASSERT_EQ(s->full, live == s->capacity) << "full exactly when it cannot give blocks";
            used_bytes += live * bytes_of(s), carved_bytes += (size_t)s->carved_count * bytes_of(s);
            used[s->class_index] += live;
            if (live != 0) continue;
            ASSERT_TRUE(own_->keeps_empty);
            ASSERT_EQ(empty[s->class_index]++, 0u) << "one slab of a class may be empty";
            ASSERT_EQ(s, own_->slabs[s->class_index]->prev) << "it is the last";
        }
        ASSERT_EQ(owner_used_bytes(own_), used_bytes);
        ASSERT_EQ(own_->carved_bytes, carved_bytes);
        for (auto [c, count] : used) ASSERT_EQ(owner_used_blocks(own_, c), count);
        ASSERT_EQ(own_->used_bytes_peak, peak_said_);
        ASSERT_EQ(own_->trimmed_is_wanted, wanted_said_);
        ASSERT_EQ(own_->trimmed_pages_released, released_said_);
        if (own_->trim_at != nullptr) {
            ASSERT_FALSE(own_->trim_at->full) << "the next step of a trim begins at a slab that left its list";
            ASSERT_EQ(own_->trim_at->class_index, own_->trim_class);
        }
    }

    slab *any()
    {
        if (said_.empty()) return nullptr;
        auto at = said_.begin();
        std::advance(at, rng_.below(said_.size()));
        return at->first;
    }

    owner *own_ = nullptr;
    test::Rng rng_;
    std::map<slab *, SlabSaid> said_;
    std::set<char *> untold_;
    size_t peak_said_ = 0;
    bool wanted_said_ = false;
    uint32_t released_said_ = 0;
};

} // namespace

TEST_F(SlabLaw, InAnyHistory)
{
    SKIP_UNDER_SANITIZER("blocks that are free may not be read");
    for (int history = 0; history < 40; history++) {
        own_->has_limit = rng_.below(4) == 0;
        own_->keeps_empty = rng_.below(2) == 0;
        own_->trimmed_is_wanted = wanted_said_ = false;
        own_->trimmed_pages_released = released_said_ = 0;
        own_->used_bytes_peak = peak_said_ = 0;
        limit_set(rng_.below(4) == 0 ? size_t{1} << 40 : SIZE_MAX);
        pool_purge_all(); // slabs of a heap with a limit do not tell
        if (rng_.below(2) == 0) purge_keep_at_least(8 * SUPERSLAB_PAGES); // until the next purge
        uint32_t classes[4];
        for (uint32_t &c : classes) c = 1 + (uint32_t)rng_.below(CLASS_COUNT - 1);
        const bool grows = history % 4 == 0; // to more than CARVE_MUCH_BYTES in one class, twice
        if (grows) std::fill(classes, classes + 4, 1 + (uint32_t)rng_.below((CLASS_COUNT - 1) >> history / 4 % 2));
        const int steps = grows ? 600 : 250;
        for (int step = 0; step < steps; step++) {
            SCOPED_TRACE("history " + std::to_string(history) + ", step " + std::to_string(step));
            const uint32_t c = classes[rng_.below(4)];
            slab *s = any();
            const size_t what = rng_.below(16);
            if (grows && step == steps / 2) end_all(false);
            else if (what < 6 || s == nullptr) take(c);
            else if (what < 7) take(c, true);
            else if (what < 8) take_one(s);
            else if (what < 12) give_back(s, grows ? 0 : rng_.below(3));
            else if (what < 14) trim();
            else if (what < 15) sort(c);
            else if (rng_.below(4) == 0) pool_purge_all();
            else use_run();
            ASSERT_NO_FATAL_FAILURE(expect_books());
        }
        test::inspected();
        end_all(rng_.below(2) == 0);
    }
}
