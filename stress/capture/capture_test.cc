// capture and the replay of what it wrote, on a program whose calls are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "capture/block_table.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/base/spawn_for_test.h"
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

// The name is for the last program: the logs of one process are numbered, and the tenth is not the second.
TEST_F(Capture, TheNameIsForTheLastOfManyProgramsThatAProcessBecomes)
{
    const std::string again = directory + "/again";
    ASSERT_EQ(file_replace(again, "#!/bin/sh\n[ $1 = 0 ] && exec \"$2\" kinds\nexec \"$0\" $(($1 - 1)) \"$2\"\n", 0700),
              "");
    const SpawnResult result = spawn_stress({"capture", "-o", trace, "--", again, "11", calls});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 13);
    EXPECT_EQ(counts(trace).size(), 11u) << result.out;
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

// A large block of which the program wrote a part takes that part in the replay. Blocks that are freed, that grow, that come
// from calloc, and that live until exit.
TEST_F(Capture, TheReplayTouchesWhatTheProgramTouched)
{
    EXPECT_EQ(capture("touches").exit_code, 0);
    struct Found {
        TraceFigures figures;
        std::vector<std::pair<std::size_t, std::size_t>> touched; // MiB of the block, MiB of it
        std::size_t next_bytes = 0;
    } found;
    const auto each = [](void *to, const Op &op) {
        Found &into = *static_cast<Found *>(to);
        if (op.kind == OpKind::Touches) into.next_bytes = op_size(op);
        if (!op_allocates(op.kind)) return;
        const std::size_t bytes = op_size(op) * (op.kind == OpKind::Calloc ? op.arg : 1);
        if (bytes >= std::size_t{32} << 20) into.touched.emplace_back(bytes >> 20, into.next_bytes >> 20);
        into.next_bytes = 0;
    };
    EXPECT_EQ(trace_check(trace, found.figures, each, &found), "");
    EXPECT_THAT(found.touched, testing::ElementsAre(testing::Pair(64, 1), testing::Pair(40, 0), testing::Pair(32, 2),
                                                    testing::Pair(48, 3)));
    const std::string json = directory + "/run.json";
    EXPECT_EQ(spawn_stress({"run", trace, "--no-check", "--json", json}).exit_code, 0);
    std::string text;
    ASSERT_EQ(file_read(json, text), "");
    const auto figure = [&text](const std::string &name) {
        return std::strtoull(text.c_str() + text.find("\"" + name + "\": ") + name.size() + 4, nullptr, 10) >> 20;
    };
    EXPECT_LT(figure("peak_rss_bytes") - figure("start_rss_bytes"), 60u) << "64 + 40 MiB if all were touched";
}

// The log is a sparse file of 32 GiB, and a write beyond the limit would kill the program.
TEST_F(Capture, ALimitOnTheSizeOfFilesIsKept)
{
    const SpawnResult result = spawn_stress({"capture", "-o", trace, "--", calls, "kinds"}, "ulimit -S -f 100000; ");
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(counts(trace).size(), 11u) << result.out;
    const SpawnResult none = spawn_stress({"capture", "-o", trace, "--", calls, "kinds"}, "ulimit -S -f 100; ");
    EXPECT_EQ(none.exit_code, 2);
    EXPECT_THAT(none.err, HasSubstr("nothing was recorded: ")) << "where there is no room for a log";
    EXPECT_FALSE(file_exists(trace + ".logs"));
}

// From then on. The program waits for the line that says so, and begins another one, which waits for its log's end.
TEST_F(Capture, NoProcessIsRecordedWhereTheDiskIsNearlyFull)
{
    const std::string full = directory + "/full",
                      library = program.substr(0, program.rfind('/')) + "/libwrite-faults.so";
    const std::string script = ": >\"$1\"; until grep -q \"nearly full\" /proc/self/fd/2; do sleep 0.01; done; "
                               "\"$0\" closed";
    const SpawnResult result = spawn_stress({"capture", "-o", trace, "--", "sh", "-c", script, calls, full},
                                            "LD_PRELOAD='" + library + "' WRITE_FAULT_FULL='" + full + "' ");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("later calls are not in it"));
    EXPECT_EQ(result.err.find("ended with"), std::string::npos) << result.err;
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
