#include "campaign/soak_state.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

SoakState example()
{
    SoakState state;
    state.options = "larson on hakmem; schedule os, with '--threads' \"4\"";
    state.first_seed = UINT64_MAX - 3;
    state.next_run = 12345;
    state.started_unix = 1772000000;
    state.elapsed_seconds = 12.000000001;
    state.passed = 12340;
    state.failed = 4;
    state.skipped = 1;
    CampaignCell cell;
    cell.scenario = "larson";
    cell.allocator = "hakmem";
    cell.schedule = "os";
    cell.passed = 12340;
    cell.ops_per_second = 1.0 / 3;
    cell.skip_reason = "a \"reason\"";
    state.cells = {cell, CampaignCell{}};
    return state;
}

TEST(SoakState, RoundTrip)
{
    const std::string text = soak_state_text(example());
    SoakState again;
    ASSERT_EQ(soak_state_read(text, again), "");
    EXPECT_EQ(soak_state_text(again), text);
    EXPECT_EQ(again.first_seed, UINT64_MAX - 3);
    EXPECT_EQ(again.elapsed_seconds, 12.000000001);
    EXPECT_EQ(again.cells[0].ops_per_second, 1.0 / 3);
    EXPECT_EQ(again.cells[0].skip_reason, "a \"reason\"");
}

// Cut at every byte: refused, or resumed exactly if only white space was lost.
TEST(SoakState, CutAtEveryByte)
{
    const std::string text = soak_state_text(example());
    std::size_t refused = 0;
    for (std::size_t length = 0; length < text.size(); ++length) {
        SoakState again;
        const std::string fault = soak_state_read(text.substr(0, length), again);
        if (fault.empty()) EXPECT_EQ(soak_state_text(again), text) << length;
        else ++refused;
    }
    EXPECT_EQ(refused, text.size() - 1);
}

// With any byte changed, it is refused or means the same as before.
TEST(SoakState, AnyByteChanged)
{
    const std::string text = soak_state_text(example());
    for (std::size_t at = 0; at < text.size(); ++at)
        for (int bit = 0; bit < 8; ++bit) {
            std::string changed = text;
            changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
            SoakState again;
            if (soak_state_read(changed, again).empty()) EXPECT_EQ(soak_state_text(again), text) << at << " " << bit;
        }
}

TEST(SoakState, OtherJsonIsRefused)
{
    SoakState state;
    for (const char *text : {"", "{}", "[]", "{\"version\": 2}", "{\"version\": 1, \"checksum\": \"0\"}",
                             "{\"version\": 1, \"checksum\": 7}", "null"})
        EXPECT_NE(soak_state_read(text, state), "") << text;
}

// Law: a kept run is read if and only if its cell is one of the table.
TEST(SoakState, ARunOfACellThatIsNotThereIsRefused)
{
    for (const std::size_t cell : {std::size_t{0}, std::size_t{1}, std::size_t{2}, SIZE_MAX}) {
        SoakState state = example(), again;
        state.first = {{1, 7}, {cell, 8}};
        EXPECT_EQ(soak_state_read(soak_state_text(state), again),
                  cell < state.cells.size() ? "" : "a kept run is of a cell that is not in its table");
    }
}

}  // namespace
}  // namespace stress
