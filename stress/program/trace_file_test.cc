// Traces: what is written reads back, what is said of files that are no traces, and how a run's threads get the ops.
#include "program/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/base/spawn_for_test.h"
#include "program/compress.h"
#include "program/program_file.h"
#include "program/trace_feed.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class TraceFiles : public testing::Test {
  protected:
    std::string trace = testing::TempDir() + "hakmem-trace-" + std::to_string(getpid()), whole;
    TraceFigures figures;

    // Two threads that hand blocks to each other, in three frames.
    TraceFiles()
    {
        std::vector<Op> ops;
        for (std::uint32_t i = 0; i < kTraceFrameOps + 8; ++i)
            for (const OpKind kind : {OpKind::Malloc, OpKind::Free}) {
                Op op = op_make(kind, i % 3, kind == OpKind::Malloc ? i : 0, 0,
                                static_cast<std::uint16_t>(i / 3 * 2 + (kind == OpKind::Malloc ? 1 : 2)));
                op.thread = kind == OpKind::Malloc ? 0 : 1;
                ops.push_back(op);
            }
        const TraceFigures written{2, 3, ops.size(), ops.size() / 2, 77, 66};
        TraceWriter writer(written, 3);
        for (const Op &op : ops) writer.add(op);
        EXPECT_EQ(writer.write(trace), "");
        EXPECT_EQ(file_read(trace, whole), "");
    }

    ~TraceFiles() override { unlink(trace.c_str()); }

    void write(const std::string &bytes) { std::ofstream(trace, std::ios::binary) << bytes; }

    // A mix of all ops of the file, or 0 if it is refused.
    std::uint64_t mix_of(const std::string &bytes)
    {
        write(bytes);
        std::uint64_t mix = 1;
        const std::string fault = trace_check(
            trace, figures,
            [](void *to, const Op &op) {
                std::uint64_t words[2];
                std::memcpy(words, &op, sizeof op);
                auto &sum = *static_cast<std::uint64_t *>(to);
                sum = (sum * 31 + words[0]) * 31 + words[1];
            },
            &mix);
        return fault.empty() ? mix : 0;
    }
};

#ifdef __GLIBC__
TEST(Compress, LeavesNothingAllocated)
{
    const std::string bytes(100000, 'b');
    std::string out;
    out.reserve(1 << 20);
    std::size_t before = 0, after = 0;
    for (int round = 0; round < 10; ++round) {
        out.clear();
        compress_append(out, bytes, 3);
        EXPECT_LT(out.size(), bytes.size());
        const struct mallinfo2 figures = mallinfo2();
        after = figures.uordblks + figures.hblkhd;
        if (round == 0) before = after;
    }
    EXPECT_EQ(after, before);
}
#endif

// zstd(1): a higher level compresses more.
TEST(Compress, AsMuchAsItsLevelSays)
{
    Rng rng(42, 0);
    std::string bytes(100000, '\0');
    for (char &byte : bytes) byte = static_cast<char>('a' + rng.below(4));
    std::size_t sizes[2];
    for (const int level : {1, 19}) {
        std::string out;
        compress_append(out, bytes, level);
        sizes[level == 19] = out.size();
    }
    EXPECT_LT(sizes[1] + 1000, sizes[0]);
}

TEST_F(TraceFiles, WhatIsWrittenReadsBack)
{
    Program program;
    ASSERT_EQ(program_read(trace, program), "");
    EXPECT_TRUE(program.links_kept);
    EXPECT_EQ(program.threads, 2u);
    EXPECT_EQ(program.schedule, Schedule::Os);
    EXPECT_EQ(program.ops.size(), 2 * (kTraceFrameOps + 8));
    EXPECT_EQ(links_fault(program.ops, program.threads), "");
    EXPECT_EQ(program.ops[2 * kTraceFrameOps].size48, kTraceFrameOps);
    ASSERT_EQ(trace_check(trace, figures, nullptr, nullptr), "");
    EXPECT_EQ(figures.threads, 2u);
    EXPECT_EQ(figures.slots, 3u);
    EXPECT_EQ(figures.ops, program.ops.size());
    EXPECT_EQ(figures.blocks, program.ops.size() / 2);
    EXPECT_EQ(figures.bytes, 77u);
    EXPECT_EQ(figures.peak_live_bytes, 66u);
}

// libzstd ignores a few bits of its own head; a change of one leaves all ops as they are.
TEST_F(TraceFiles, EachChangeOfAByteAndEachCutIsFound)
{
    Rng rng(42, 0);
    const std::uint64_t sound = mix_of(whole);
    for (int i = 0; i < 120; ++i) {
        std::string bytes = whole;
        const std::size_t at = i < 64 ? static_cast<std::size_t>(i) : rng.below(bytes.size());
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8)));
        SCOPED_TRACE(at);
        EXPECT_THAT(mix_of(bytes), testing::AnyOf(0u, sound));
        if (at < 64) { // the head
            EXPECT_EQ(mix_of(bytes), 0u);
        }
    }
    for (std::size_t left = 0; left < whole.size(); left += 1 + left / 16) EXPECT_EQ(mix_of(whole.substr(0, left)), 0u);
    EXPECT_EQ(mix_of(whole + "x"), 0u);
}

TEST_F(TraceFiles, ARunOfABadFileIsOneLine)
{
    const auto expect_refused = [](const std::vector<std::string> &words, const char *says) {
        const SpawnResult result = spawn_stress(words);
        EXPECT_EQ(result.exit_code, 2) << words[0];
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_THAT(result.err, HasSubstr(says));
    };
    write(whole.substr(0, whole.size() / 2));
    for (const char *command : {"run", "show", "shrink"}) expect_refused({command, trace}, "is truncated");
    expect_refused({"compare", "system", "hakmem", trace}, "is truncated");
    std::string changed = whole;
    changed[whole.size() - 20] = static_cast<char>(changed[whole.size() - 20] ^ 1);
    write(changed);
    expect_refused({"run", trace}, "is corrupt");
    // A head that claims more than the machine has.
    unlink(trace.c_str());
    TraceWriter writer({1024, kTraceSlotsMax, kTraceOpsMax, 0, 0, 0}, 3);
    EXPECT_EQ(writer.write(trace), "");
    expect_refused({"run", trace}, "is truncated");
}

// Sets the checksum of a changed head (FNV-1a over the head with a checksum of 0, at its end).
std::string sealed(std::string bytes)
{
    std::uint64_t sum = 0xcbf29ce484222325;
    std::fill(bytes.begin() + 56, bytes.begin() + 64, '\0');
    for (std::size_t i = 0; i < 64; ++i) sum = (sum ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
    std::memcpy(&bytes[56], &sum, sizeof sum);
    return bytes;
}

TEST_F(TraceFiles, EachFigureOfTheHeadHasItsLimits)
{
    EXPECT_EQ(sealed(whole), whole);
    TraceFigures read;
    ASSERT_EQ(trace_check(trace, read), "");
    EXPECT_EQ(read.threads, 2u);
    EXPECT_EQ(read.slots, 3u);
    EXPECT_EQ(read.ops, 2 * (kTraceFrameOps + 8));
    EXPECT_EQ(read.blocks, kTraceFrameOps + 8);
    const std::string range = "is corrupt: threads, slots or ops are out of range", none = " ops instead of ";
    const struct {
        TraceFigures figures;
        std::string fault;
    } heads[] = {
        {{0, 1, 9, 0, 0, 0}, range},
        {{kOpThreadsMax, 1, 9, 0, 0, 0}, none},
        {{kOpThreadsMax + 1, 1, 9, 0, 0, 0}, range},
        {{1, 0, 9, 0, 0, 0}, range},
        {{1, 10, 9, 0, 0, 0}, none},
        {{1, 11, 9, 0, 0, 0}, range},
        {{1, kTraceSlotsMax, kTraceOpsMax, 0, 0, 0}, none},
        {{1, kTraceSlotsMax + 1, kTraceOpsMax, 0, 0, 0}, range},
        {{1, 1, kTraceOpsMax + 1, 0, 0, 0}, range},
    };
    for (const auto &head : heads) {
        EXPECT_EQ(TraceWriter(head.figures, 3).write(trace), "");
        EXPECT_THAT(trace_check(trace, figures), HasSubstr(head.fault));
    }
    const auto fault_with = [this](std::size_t at, std::size_t value) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(value);
        write(sealed(bytes));
        return trace_check(trace, figures);
    };
    EXPECT_EQ(fault_with(8, 1), "is not a trace of version 2");
    EXPECT_THAT(fault_with(9, 0), StartsWith("has 0 kinds of op, and this program knows "));
    EXPECT_THAT(fault_with(9, kOpKindCount + 1), StartsWith("has " + std::to_string(kOpKindCount + 1) + " kinds"));
    EXPECT_EQ(fault_with(9, 2), "");
    EXPECT_EQ(fault_with(16, 15), "has ops too many: 8208 ops instead of 8207");
    EXPECT_EQ(fault_with(16, 17), "is truncated: 8208 ops instead of 8209");
}

// A frame's own head: the number of ops, and of bytes.
TEST_F(TraceFiles, EachFrameHasItsLimits)
{
    const auto fault_with = [this](std::uint32_t ops, std::uint32_t bytes) {
        std::string changed = whole;
        const std::uint32_t words[] = {ops, bytes};
        std::memcpy(&changed[64], words, sizeof words);
        write(changed);
        return trace_check(trace, figures);
    };
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, &whole[68], sizeof bytes);
    const std::string range = "is corrupt: a frame is out of range";
    EXPECT_EQ(fault_with(kTraceFrameOps, bytes), "");
    EXPECT_EQ(fault_with(0, bytes), range);
    EXPECT_EQ(fault_with(kTraceFrameOps + 1, bytes), range);
    EXPECT_EQ(fault_with(kTraceFrameOps - 1, bytes), "is truncated: 8207 ops instead of 8208");
    constexpr std::uint32_t packed_max = 65536 + 512 + 512;
    EXPECT_EQ(fault_with(kTraceFrameOps, packed_max), "is truncated within a frame");
    EXPECT_EQ(fault_with(kTraceFrameOps, packed_max + 1), range);
    const std::string without_end = whole.substr(0, 64 + 8 + bytes);
    for (const std::size_t more : {1u, 7u}) {
        write(without_end + whole.substr(64 + 8 + bytes, more));
        EXPECT_EQ(trace_check(trace, figures), "is truncated within a frame");
    }
    write(without_end);
    EXPECT_EQ(trace_check(trace, figures), "is truncated: 4096 ops instead of 8208");
}

TEST_F(TraceFiles, AreKnownByTheirFirstBytes)
{
    EXPECT_TRUE(trace_is(trace));
    EXPECT_FALSE(trace_is(trace + ".none"));
    EXPECT_TRUE(trace_begins(whole.data(), 9));
    EXPECT_FALSE(trace_begins(whole.data(), 8));
    EXPECT_FALSE(trace_begins(whole.data() + 1, 9));
    write(whole.substr(0, 15));
    EXPECT_FALSE(trace_is(trace));
    write(whole.substr(0, 16));
    EXPECT_TRUE(trace_is(trace));
    for (const std::size_t at : {0u, 7u, 8u}) {
        std::string other = whole;
        ++other[at];
        EXPECT_FALSE(trace_begins(other.data(), other.size())) << at;
    }
    const std::size_t open_files = directory_names("/proc/self/fd").size();
    std::string fault;
    {
        const TraceReader none(trace + ".none", fault), sound(trace, fault = "");
        trace_is(trace);
    }
    EXPECT_EQ(directory_names("/proc/self/fd").size(), open_files);
    const TraceReader reader(trace + ".none", fault);
    EXPECT_EQ(fault, "cannot be read: No such file or directory");
}

// Ops that the writer would not write.
TEST_F(TraceFiles, TheLawIsHeld)
{
    const auto fault_of = [this](std::vector<Op> ops) {
        TraceWriter writer({2, 2, ops.size(), 0, 0, 0}, 3);
        for (const Op &op : ops) writer.add(op);
        EXPECT_EQ(writer.write(trace), "");
        return trace_check(trace, figures);
    };
    Op other = op_make(OpKind::Free, 0);
    other.thread = 1;
    EXPECT_THAT(fault_of({op_make(OpKind::Malloc, 0, 8), other}), HasSubstr("op 2 changes the thread"));
    EXPECT_THAT(fault_of({op_make(OpKind::Malloc, 0, 8, 0, 2)}), HasSubstr("op 1 has no turn"));
    EXPECT_THAT(fault_of({op_make(OpKind::Purge, 0, 0, 0, 1)}), HasSubstr("op 1 has a link and no slot"));
    EXPECT_EQ(fault_of({op_make(OpKind::Malloc, 1, 8), op_make(OpKind::Purge, 0), op_make(OpKind::Free, 1)}), "");
    EXPECT_THAT(fault_of({op_make(OpKind::Malloc, 2, 8)}), HasSubstr("names a slot"));
    EXPECT_THAT(fault_of({op_make(OpKind::Malloc, 0, 8, 7)}), HasSubstr("is out of range"));
    EXPECT_THAT(fault_of({op_make(OpKind::Repeat, 1, 8, 7), op_make(OpKind::Malloc, 0)}), HasSubstr("no such kind"));
    const auto linked = [](Op op, std::uint16_t link) {
        op.link = link;
        return op;
    };
    const Op own = op_make(OpKind::Malloc, 0, 8);
    EXPECT_THAT(fault_of({linked(own, 1), linked(other, 2), other, other, linked(own, 3)}), HasSubstr("op 5 changes"));
    EXPECT_EQ(fault_of({linked(own, 1), linked(other, 2), other, linked(other, 3), linked(own, 4), own}), "");
    EXPECT_THAT(fault_of({linked(own, 1), other}), HasSubstr("op 2 changes the thread"));
    EXPECT_THAT(fault_of({own, linked(other, 1)}), HasSubstr("op 2 changes the thread"));
    other.thread = 2;
    EXPECT_THAT(fault_of({other}), HasSubstr("names a thread"));
}

// Three seats, one of which has nothing to do in most frames. Each gets its ops in their order, whatever the room that
// it offers, and no seat is further ahead than the frames that are held.
TEST_F(TraceFiles, AFeedGivesEachSeatItsOps)
{
    constexpr std::uint32_t kSeats = 4, kOps = 20 * kTraceFrameOps + 5;
    std::vector<Op> wanted[kSeats];
    TraceWriter writer({kSeats, 9, kOps, 0, 0, 0}, 1);
    for (std::uint32_t i = 0; i < kOps; ++i) {
        const OpKind kind = i % 7 == 3 ? OpKind::Fork : OpKind::Malloc;
        Op op = op_make(kind, kind == OpKind::Malloc ? i % 9 : 0, i);
        op.thread = static_cast<std::uint16_t>(i % 9000 == 17 ? 2 : i % 5 == 0);
        wanted[op.thread].push_back(op);
        writer.add(op);
    }
    ASSERT_EQ(writer.write(trace), "");
    for (const bool forks : {true, false}) {
        std::atomic<bool> stop{false};
        TraceFeed feed(trace, forks);
        Plan plan = feed.plan();
        EXPECT_EQ(plan.slot_count, 9u);
        ASSERT_EQ(plan.generators.size(), kSeats);
        feed.start(stop);
        std::vector<Op> got[kSeats];
        std::atomic<std::uint64_t> first_at{0};
        std::uint64_t ahead_most = 0;
        std::vector<std::thread> seats;
        for (std::uint32_t seat = 0; seat < kSeats; ++seat)
            seats.emplace_back([&, seat] {
                Op ops[1000];
                for (std::size_t count; (count = plan.generators[seat]->fill(ops, 1 + 333 * seat)) != 0;) {
                    got[seat].insert(got[seat].end(), ops, ops + count);
                    if (seat == 0) first_at = op_size(ops[count - 1]);
                    else if (seat == 1)
                        ahead_most = std::max<std::uint64_t>(
                            ahead_most,
                            op_size(ops[count - 1]) - std::min<std::uint64_t>(first_at, op_size(ops[count - 1])));
                }
                EXPECT_EQ(plan.generators[seat]->fill(ops, 1), 0u) << "the end stays the end";
            });
        for (std::thread &seat : seats) seat.join();
        EXPECT_LE(ahead_most, 9 * kTraceFrameOps);
        EXPECT_EQ(feed.fault(), "");
        for (std::uint32_t seat = 0; seat < kSeats; ++seat) {
            std::vector<Op> all = wanted[seat];
            if (!forks) std::erase_if(all, [](const Op &op) { return op.kind == OpKind::Fork; });
            ASSERT_EQ(got[seat].size(), all.size()) << seat;
            EXPECT_EQ(std::memcmp(got[seat].data(), all.data(), all.size() * sizeof(Op)), 0) << seat;
        }
    }
}

// A run that stops does not ask for the rest, and a file that changed meanwhile is named.
TEST_F(TraceFiles, AFeedEndsWithTheRunOrWithAFault)
{
    Op op;
    {
        std::atomic<bool> stop{true};
        TraceFeed feed(trace, true);
        const Plan plan = feed.plan();
        feed.start(stop);
        EXPECT_EQ(plan.generators[0]->fill(&op, 1), 0u);
        EXPECT_EQ(plan.generators[1]->fill(&op, 1), 0u);
        EXPECT_EQ(feed.fault(), "");
    }
    std::atomic<bool> stop{false};
    TraceFeed feed(trace, true);
    const Plan plan = feed.plan();
    std::string changed = whole;
    std::fill(changed.begin() + 72, changed.end(), '\xff');
    std::ofstream(trace, std::ios::binary | std::ios::in).write(changed.data(), static_cast<long>(changed.size()));
    feed.start(stop);
    for (const auto &generator : plan.generators) EXPECT_EQ(generator->fill(&op, 1), 0u);
    EXPECT_EQ(feed.fault(), "changed while it was replayed");
    // The head of a frame, which was in its range before.
    for (const std::uint32_t words : {0u, 1u}) {
        write(whole);
        TraceFeed other(trace, true);
        const Plan of_other = other.plan();
        std::string wide = whole;
        std::memset(&wide[64 + 4 * words], words == 0 ? 0x01 : 0x7f, 4);
        std::ofstream(trace, std::ios::binary | std::ios::in).write(wide.data(), static_cast<long>(wide.size()));
        other.start(stop);
        for (const auto &generator : of_other.generators) EXPECT_EQ(generator->fill(&op, 1), 0u);
        EXPECT_EQ(other.fault(), "changed while it was replayed");
    }
}

} // namespace
} // namespace stress
