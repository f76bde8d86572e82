// capture and the replay of what it wrote, on a program whose calls are known; and what is said of files that are no
// traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "capture/block_table.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/base/spawn_for_test.h"
#include "program/compress.h"
#include "program/op_syntax.h"
#include "program/program_file.h"
#include "program/trace_file.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using Counts = std::map<std::pair<std::string, std::size_t>, std::uint64_t>;

class Capture : public testing::Test {
  protected:
    std::string directory = testing::TempDir() + "hakmem-capture-" + std::to_string(getpid());
    std::string trace = directory + "/a.trace";
    std::string program = std::getenv("HAKMEM_STRESS_PROGRAM");
    std::string calls = program.substr(0, program.rfind('/')) + "/capture-calls"; // calls_for_test.c

    Capture() { mkdir(directory.c_str(), 0700); }
    ~Capture() override
    {
        for (const std::string &name : directory_names(directory)) unlink((directory + "/" + name).c_str());
        rmdir(directory.c_str());
    }

    SpawnResult capture(const std::string &mode, std::vector<std::string> words = {})
    {
        words.insert(words.begin(), {"capture", "-o", trace});
        words.insert(words.end(), {"--", calls, mode});
        return spawn_stress(words);
    }

    // The ops of the test program's own sizes, by kind.
    Counts counts(const std::string &path)
    {
        Counts found;
        EXPECT_EQ(
            trace_check(
                path, figures,
                [](void *to, const Op &op) {
                    const bool own = op_has_slot(op.kind) && op_size(op) > 5000 && op_size(op) < 6000;
                    if (own || op.kind == OpKind::Renew || op.kind == OpKind::Fork)
                        ++(*static_cast<Counts *>(to))[{std::string(op_syntax(op.kind).name), own ? op_size(op) : 0}];
                },
                &found),
            "");
        return found;
    }

    void expect_replays(const std::string &path)
    {
        for (const char *allocator : {"system", "hakmem", "validate"}) {
            const SpawnResult result = spawn_stress({"run", path, "--allocator", allocator});
            EXPECT_EQ(result.exit_code, 0) << allocator << result.out << result.err;
            EXPECT_THAT(result.out, HasSubstr("\n  blocks     " + std::to_string(figures.blocks) + " of " +
                                              std::to_string(figures.bytes) + " bytes\n"));
        }
        EXPECT_EQ(spawn_stress({"run", path, "--no-check"}).exit_code, 0);
    }

    void expect_refused(const std::vector<std::string> &words, const std::string &says)
    {
        const SpawnResult result = spawn_stress(words);
        EXPECT_EQ(result.exit_code, 2) << words[0];
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_THAT(result.err, HasSubstr(says));
    }

    TraceFigures figures;
};

TEST_F(Capture, BlocksThatThreadsHandOverKeepTheirOrder)
{
    EXPECT_EQ(capture("threads").exit_code, 0);
    const Counts found = counts(trace);
    for (std::size_t size = 5001; size <= 5004; ++size) EXPECT_EQ(found.at({"malloc", size}), 1000u);
    EXPECT_EQ(found.at({"renew", 0}), 4u); // each thread took the seat of the one before
    EXPECT_EQ(figures.threads, 2u);
    expect_replays(trace);
}

TEST_F(Capture, EachKindOfCall)
{
    for (const char *allocator : {"system", "hakmem"}) {
        SCOPED_TRACE(allocator);
        EXPECT_EQ(capture("kinds", {"--allocator", allocator}).exit_code, 0);
        const Counts expected{{{"malloc", 5001}, 1},         {{"calloc", 5005}, 1},   {{"aligned_alloc", 5056}, 1},
                              {{"memalign", 5010}, 1},       {{"memalign", 5020}, 1}, {{"malloc", 5025}, 1},
                              {{"posix_memalign", 5030}, 1}, {{"malloc", 5040}, 1},   {{"realloc", 5041}, 1},
                              {{"malloc", 5050}, 1},         {{"realloc", 5051}, 1}};
        const Counts found = counts(trace);
        EXPECT_EQ(found, expected);
        expect_replays(trace);
    }
}

TEST_F(Capture, AChildOfAForkAndAProgramThatItBecomesHaveFilesOfTheirOwn)
{
    const SpawnResult result = capture("fork");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("1 frees of blocks from before"));
    EXPECT_EQ(counts(trace), (Counts{{{"malloc", 5001}, 1}, {{"malloc", 5003}, 1}, {{"fork", 0}, 1}}));
    expect_replays(trace);
    std::vector<std::string> others = directory_names(directory);
    std::erase(others, "a.trace");
    ASSERT_EQ(others.size(), 2u);
    EXPECT_EQ(counts(directory + "/" + others[0]), (Counts{{{"malloc", 5002}, 1}}));
    EXPECT_EQ(counts(directory + "/" + others[1]).size(), 11u);
}

TEST_F(Capture, AKilledProgramLeavesAFileThatReplays)
{
    const SpawnResult result = capture("killed");
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("the program ended with SIGKILL"));
    const Counts found = counts(trace);
    EXPECT_EQ(found.at({"malloc", 5001}), 1000u);
    EXPECT_EQ(found.at({"malloc", 5002}), 1000u);
    EXPECT_GT(found.at({"malloc", 5999}), 1000u);
    expect_replays(trace);
}

TEST_F(Capture, ALimitOfCallsCutsTheFileNotTheProgram)
{
    const SpawnResult result = capture("threads", {"--calls", "500"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("later calls are not in it"));
    counts(trace);
    EXPECT_EQ(figures.ops, 500u);
    expect_replays(trace);
}

TEST_F(Capture, BadInputIsOneLine)
{
    expect_refused({"capture", "-o", trace}, "no program given");
    expect_refused({"capture", "-o", trace, "--", "/no/such"}, "cannot run '/no/such'");
    expect_refused({"capture", "-o", "/no/such/a", "--", "true"}, "-o: ");
    expect_refused({"capture", "-o", trace, "--allocator", "/no/such.so", "--", "true"}, "/no/such.so");
    expect_refused({"capture", "--", "true"}, "-o");
    mkdir((trace + ".logs").c_str(), 0700);
    expect_refused({"capture", "-o", trace, "--", "true"}, "was killed");
    rmdir((trace + ".logs").c_str());
}

TEST_F(Capture, ShowAndCompareTakeATrace)
{
    EXPECT_EQ(capture("kinds").exit_code, 0);
    const SpawnResult shown = spawn_stress({"show", trace});
    EXPECT_THAT(shown.out, HasSubstr("= posix_memalign(4096, 5030);\n"));
    const SpawnResult compared = spawn_stress({"compare", "system", "hakmem", trace});
    EXPECT_EQ(compared.exit_code, 0) << compared.out << compared.err;
    EXPECT_EQ(spawn_stress({"run", trace, "--schedule", "seeded"}).exit_code, 0);
}

class TraceFiles : public Capture {
  protected:
    std::string whole;

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
        const TraceFigures written{2, 3, ops.size(), ops.size() / 2, 0, 0};
        TraceWriter writer(written, 3);
        for (const Op &op : ops) writer.add(op);
        EXPECT_EQ(writer.write(trace), "");
        EXPECT_EQ(file_read(trace, whole), "");
    }

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

TEST_F(TraceFiles, WhatIsWrittenReadsBack)
{
    Program program;
    ASSERT_EQ(program_read(trace, program), "");
    EXPECT_TRUE(program.links_kept);
    EXPECT_EQ(program.ops.size(), 2 * (kTraceFrameOps + 8));
    EXPECT_EQ(links_fault(program.ops, program.threads), "");
    EXPECT_EQ(program.ops[2 * kTraceFrameOps].size48, kTraceFrameOps);
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
    EXPECT_THAT(fault_of({op_make(OpKind::Malloc, 2, 8)}), HasSubstr("names a slot"));
    EXPECT_THAT(fault_of({op_make(OpKind::Malloc, 0, 8, 7)}), HasSubstr("is out of range"));
    EXPECT_THAT(fault_of({op_make(OpKind::Repeat, 1, 8, 7), op_make(OpKind::Malloc, 0)}), HasSubstr("no such kind"));
    other.thread = 2;
    EXPECT_THAT(fault_of({other}), HasSubstr("names a thread"));
}

TEST(BlockTable, HoldsWhatAMapHolds)
{
    BlockTable table;
    std::map<std::uint64_t, std::uint32_t> map;
    Rng rng(42, 1);
    for (std::uint32_t i = 0; i < 50'000; ++i) {
        const std::uint64_t address = 1 + rng.below(5000);
        const auto found = map.find(address);
        EXPECT_EQ(table.take(address), found == map.end() ? ~0U : found->second);
        if (found != map.end()) map.erase(found);
        if (!rng.one_in(3)) {
            table.put(address, i);
            map[address] = i;
        }
    }
}

} // namespace
} // namespace stress
