// The log of a run, written as a run's seats write it: what the reader gets, in which order, and what it refuses.
#include "program/run_log.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <vector>

#include "program/ops_for_test.h"

namespace stress {
namespace {

constexpr std::size_t kPageBytes = 4096;

class RunLogs : public testing::Test {
  protected:
    static constexpr std::uint32_t kSeats = 3;
    static constexpr std::size_t kRoom = 200; // more than a page for each seat

    const std::size_t resident_before = harness_resident_bytes();
    const int fd = run_log_file();
    RunLog log = RunLog::create(fd, kSeats, kRoom);
    std::size_t bytes = static_cast<std::size_t>(lseek(fd, 0, SEEK_END));
    char *start = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));

    ~RunLogs() override
    {
        munmap(start, bytes);
        close(fd);
    }

    static std::size_t rounded(std::size_t size) { return (size + kPageBytes - 1) / kPageBytes * kPageBytes; }
    static std::size_t seat_bytes()
    {
        return rounded(sizeof(SeatLog) + kRoom * (sizeof(SeatLog::Entry) + sizeof(OpOutcome)));
    }
    // The seats are at the end.
    SeatLog &seat(std::uint32_t index)
    {
        return *reinterpret_cast<SeatLog *>(start + bytes - (kSeats - index) * seat_bytes());
    }

    // The seat has begun the ops of the text and has done all but `open` of them, with these stamps.
    void write(std::uint32_t index, const char *text, std::vector<std::uint64_t> stamps, std::uint64_t open = 0)
    {
        Program program;
        program_parse(std::string("links kept\n") + text, program);
        auto *entries = reinterpret_cast<SeatLog::Entry *>(&seat(index) + 1);
        for (std::size_t i = 0; i < program.ops.size(); ++i)
            entries[i] = {program.ops[i], i < stamps.size() ? stamps[i] : 0};
        seat(index) = {kRoom, program.ops.size(), program.ops.size() - open, nullptr, nullptr};
    }
    std::string merged() { return text_of(RunLog::open(fd).merged()); }
};

TEST_F(RunLogs, HoldWhatTheyWereMadeFor)
{
    ASSERT_TRUE(log.ok());
    const RunLog read = RunLog::open(fd);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read.seats(), kSeats);
    EXPECT_EQ(read.room(), kRoom);
    EXPECT_EQ(read.dropped(), 0u);
    EXPECT_EQ(harness_resident_bytes() - resident_before, bytes) << "of the one that writes";
    EXPECT_FALSE(read.ending().finished);
    EXPECT_EQ(text_of(read.merged()), "");
    for (std::uint32_t i = 0; i < kSeats; ++i) {
        const auto at = static_cast<std::size_t>(reinterpret_cast<const char *>(read.outcomes(i)) -
                                                 reinterpret_cast<const char *>(read.outcomes(0)));
        EXPECT_EQ(at, i * seat_bytes());
        EXPECT_EQ(read.outcomes(i)[kRoom - 1].result, 0u);
    }
    RunLog moved = RunLog::open(fd);
    const RunLog taken(std::move(moved));
    EXPECT_TRUE(taken.ok());
}

TEST_F(RunLogs, AreRefusedWhereTheFileIsShorter)
{
    RunLog longer = RunLog::create(fd, kSeats + 1, kRoom); // its head claims another seat
    EXPECT_TRUE(RunLog::open(fd).ok());
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(bytes + seat_bytes() - 1)), 0);
    EXPECT_FALSE(RunLog::open(fd).ok());
    ASSERT_EQ(ftruncate(fd, 100), 0);
    EXPECT_FALSE(RunLog::open(fd).ok());
    EXPECT_FALSE(RunLog::open(-1).ok());
    EXPECT_FALSE(RunLog::create(-1, 1, 1).ok());
    RunLog::create(fd, kSeats, kRoom);
    EXPECT_TRUE(RunLog::open(fd).ok());
    reinterpret_cast<std::uint64_t *>(start)[1] = std::uint64_t{1} << 59; // the room, of which a seat's bytes overflow
    EXPECT_FALSE(RunLog::open(fd).ok());
}

TEST_F(RunLogs, StampsOrderTheOps)
{
    write(0, "free(b0); free(b1); free(b2);", {1, 5, 6});
    write(1, "T1: free(b3); T1: free(b4);", {2, 4});
    write(2, "T2: free(b5);", {3});
    EXPECT_EQ(merged(), "free(b0);T1: free(b3);T2: free(b5);T1: free(b4);free(b1);free(b2);");
    write(1, "T1: free(b3); T1: free(b4);", {2, 6});
    EXPECT_EQ(merged(), "free(b0);T1: free(b3);T2: free(b5);free(b1);free(b2);T1: free(b4);") << "seats in their order";
}

// Without stamps, and for what has begun and is not done: as links allow, and what has no turn comes last.
TEST_F(RunLogs, LinksOrderTheOps)
{
    write(0, "b0 = malloc(1) link 1; free(b0) link 3; purge();", {});
    write(1, "T1: purge(); T1: check(b0) link 2; T1: free(b7) link 2;", {});
    write(2, "T2: purge();", {});
    EXPECT_EQ(merged(), "b0 = malloc(1) link 1;T1: purge();T1: check(b0) link 2;T2: purge();free(b0) link 3;purge();"
                        "T1: free(b7) link 2;");
    write(0, "b0 = malloc(1) link 1; purge();", {7, 9});
    write(1, "T1: purge(); T1: check(b0) link 2;", {8}, 1);
    write(2, "T2: free(b0) link 3;", {}, 1);
    EXPECT_EQ(merged(), "b0 = malloc(1) link 1;T1: purge();purge();T1: check(b0) link 2;T2: free(b0) link 3;");
}

TEST_F(RunLogs, AFullLogCountsWhatItDrops)
{
    std::string text, wanted;
    for (std::size_t i = 0; i < kRoom; ++i) text += "T1: free(b" + std::to_string(i) + ");";
    write(1, text.c_str(), {});
    EXPECT_EQ(RunLog::open(fd).dropped(), 0u);
    EXPECT_EQ(merged(), text);
    seat(1).begun = seat(1).done = kRoom + 2;
    seat(2).begun = kRoom + 1;
    seat(2).done = kRoom;
    EXPECT_EQ(RunLog::open(fd).dropped(), 3u);
    seat(2).begun = seat(2).done = 0;
    EXPECT_EQ(merged(), text);
    std::vector<std::uint64_t> stamps(kRoom);
    std::iota(stamps.begin(), stamps.end(), 1);
    write(1, text.c_str(), stamps);
    seat(1).begun = seat(1).done = kRoom + 2;
    EXPECT_EQ(merged(), text) << "nothing behind what is there, also of a seeded run";
}

TEST_F(RunLogs, KeepTheSettingsAndTheEnding)
{
    Program program, read;
    program.threads = 3;
    program.seed = 77;
    program.allocator = std::string(8000, 'a');
    log.set_settings(program);
    EXPECT_EQ(RunLog::open(fd).settings(read), "");
    EXPECT_EQ(read.seed, 77u);
    EXPECT_EQ(read.allocator, program.allocator);
    program.allocator = std::string(8192 - 64 - 2, 'b'); // all that fits, with the header and the ends of two names
    log.set_settings(program);
    EXPECT_EQ(RunLog::open(fd).settings(read), "");
    EXPECT_EQ(read.allocator, program.allocator);
    program.allocator += 'b';
    program.seed = 78;
    log.set_settings(program);
    EXPECT_EQ(RunLog::open(fd).settings(read), "") << "longer settings are not kept";
    EXPECT_EQ(read.seed, 77u);

    Result result;
    log.finish(result);
    const RunLog reader = RunLog::open(fd);
    EXPECT_TRUE(reader.ending().finished);
    EXPECT_STREQ(reader.ending().rule, "");
    EXPECT_EQ(reader.ending().schedule, ScheduleMark{});
    result.schedule_hash = 5;
    result.logical_clock = 6;
    log.finish(result);
    EXPECT_EQ(reader.ending().schedule, ScheduleMark{}) << "it was not seeded";
    result.seeded = true;
    result.failures = {{"overlap", std::string(500, 'd')}, {"content", "later"}};
    log.finish(result);
    EXPECT_STREQ(reader.ending().rule, "overlap");
    EXPECT_EQ(std::string(reader.ending().detail), std::string(399, 'd'));
    EXPECT_EQ(reader.ending().schedule, (ScheduleMark{5, 6}));
}

} // namespace
} // namespace stress
