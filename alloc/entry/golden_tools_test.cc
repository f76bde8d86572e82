// golden_tools_test.cc: as golden_test.cc, for what the heap has beside malloc: samples, descriptions, texts.
#include "entry/golden_test_support.h"

#include <sys/mman.h>

#include <regex>

extern "C" {
#include "debug/describe.h"
#include "guard/guard.h"
#include "profile/sampler.h"
#include "profile/profile.h"
#include "superslab/backing.h"
}

using test::MIB;
using test::golden::note;
using test::golden::noted;
using test::golden::Numbers;
using test::golden::phase;
using test::golden::Slots;
using test::golden::Worker;

namespace {

// A value that may be an address.
void note_either(uint64_t value)
{
    note(value);
    note(reinterpret_cast<const void *>(value));
}

void note_text(const std::string &text)
{
    for (unsigned char byte : text) note(uint64_t{byte});
}

} // namespace

TEST(GoldenTools, Profile)
{
    if (VALIDATE) GTEST_SKIP() << "builds with frames do not profile";
    test::golden::record("profile", [] {
        Slots slots(3000, 20);
        auto size = [&] { return slots.numbers.size(3, slots.numbers.one_in(50) ? 22 : 12); };
        test::golden::leave_out_resident(); // the table of stacks is hashed
        ASSERT_EQ(profile_start(20000, 42), 0);
        slots.fill(size);
        phase("filled");
        slots.churn(20000, size);
        phase("churned");
        slots.resize(5000, size);
        phase("resized");
        Worker other;
        other.run([&] { slots.churn(3000, size); });
        for (int visit = 0; visit < 20; visit++) {
            slots.thin(3);
            slots.fill([&] { return slots.numbers.between(200, 230); });
            slots.thin(2);
            other.run([] { note(hak_purge_all()); });
        }
        phase("visited");
        ASSERT_EQ(profile_start(100000, 43), 0);
        slots.churn(5000, size);
        phase("rarer");
        profile_stop();
        slots.thin(4);
        slots.churn(500, size);
        phase("stopped");
        slots.thin(0);
        note(hak_purge_all());
        phase("empty");
    });
}

TEST(GoldenTools, Guard)
{
    if (VALIDATE) GTEST_SKIP() << "the debug-validation build does not sample";
    test::golden::record("guard", [] {
        Slots slots(500, 21);
        auto size = [&] { return slots.numbers.size(3, 13); };
        ASSERT_TRUE(guard_start(24));
        sampling_guard_set(40);
        for (const char *round : {"first", "second", "third"}) {
            slots.churn(4000, size);
            slots.resize(300, size);
            const struct guard_figures figures = guard_figures();
            note(figures.sampled);
            note(figures.live);
            for (int i = 0; i < 2000; i++) {
                struct guard_history history;
                const char *address = test::golden::some_address(slots.numbers.below(64 * MIB));
                if (!guard_find(reinterpret_cast<uint64_t>(address), &history)) continue;
                for (uint64_t value : {history.start, history.size_bytes, uint64_t{history.state},
                                       uint64_t{history.finding}, uint64_t{history.slot}})
                    note_either(value);
            }
            phase(round);
        }
        sampling_guard_set(0);
        slots.thin(0);
        note(hak_purge_all());
        phase("empty");
    });
}

TEST(GoldenTools, Describe)
{
    test::golden::record("describe", [] {
        Slots slots(3000, 22);
        auto size = [&] { return slots.numbers.size(3, slots.numbers.one_in(50) ? 23 : 12); };
        slots.fill(size);
        Worker other;
        other.run([&] { slots.churn(2000, size); });
        slots.churn(3000, size);
        for (int i = 0; i < 4000; i++) {
            const char *address = test::golden::some_address(slots.numbers.below(512 * MIB));
            describe_place place = {};
            note(uint64_t{describe_address(reinterpret_cast<uint64_t>(address), &place)});
#define X(name, text) note_either(place.name);
            RECORD_PLACE(X)
#undef X
        }
        phase("described");
    });
}

TEST(GoldenTools, Defrag)
{
    test::golden::record("defrag", [] {
        Slots slots(20000, 23);
        auto size = [&] { return slots.numbers.size(4, 9); };
        slots.fill(size);
        slots.thin(5);
        for (int round = 0; round < 2; round++) {
            for (size_t i = 0; i < slots.size(); i++)
                if (slots[i] != nullptr && hak_defrag_hint(slots[i]))
                    if (void *moved = noted(hak_defrag_move(slots[i]))) slots[i] = moved;
            note(hak_purge());
            phase(round == 0 ? "once" : "twice");
        }
    });
}

TEST(GoldenTools, Texts)
{
    test::golden::record("texts", [] {
        Slots slots(1000, 24);
        slots.fill([&] { return slots.numbers.size(3, slots.numbers.one_in(50) ? 23 : 12); });
        for (hak_stats_format format : {HAKMEM_STATS_TEXT, HAKMEM_STATS_JSON, HAKMEM_STATS_PROMETHEUS}) {
            int file = memfd_create("texts", MFD_CLOEXEC);
            ASSERT_EQ(hak_stats_write(file, format), 0);
            std::string text(lseek(file, 0, SEEK_CUR), 0);
            ASSERT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
            // Before the figures it says which process writes, and when; Prometheus has the number in each label.
            const size_t head = text.rfind('\n', text.find("mapped_bytes")) + 1;
            text = std::regex_replace(text.substr(head), std::regex("process=\"[0-9]+\""), "process=\"\"");
            note_text((format == HAKMEM_STATS_JSON ? "{\n" : "") + text);
            close(file);
        }
        phase("written");
    });
}

TEST(GoldenTools, HugePages)
{
    test::golden::record("huge-pages", [] {
        Slots slots(300, 25);
        auto size = [&] { return slots.numbers.size(14, 19); };
        note(backing_prewarm(20 * MIB));
        phase("prewarmed");
        backing_set_huge_policy(HUGE_ALL);
        slots.fill(size);
        phase("all");
        backing_set_huge_policy(HUGE_FULL);
        for (int round = 0; round < 6; round++) {
            for (size_t i = 0; i < slots.size(); i++) {
                size_t bytes = hak_malloc_usable_size(slots[i]);
                if (bytes > 0) memset(slots[i], 1, bytes);
            }
            backing_round();
            if (round % 2 == 1) slots.churn(40, size);
        }
        phase("full");
        backing_set_huge_policy(HUGE_OFF);
        slots.thin(0);
        note(hak_purge_all());
        phase("empty");
    });
}
