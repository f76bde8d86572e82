// The engine takes nothing for itself from the malloc under test during a run. A canary counts the calls that it gets.
// The calls in a run of 2N ops, less those in a run of N ops, must be exactly the calls that the ops make.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine/base/spawn_for_test.h"

namespace stress {
namespace {

struct Calls {
    long malloc = -1, calloc = 0, realloc = 0, aligned = 0, free = 0; // as counted by the canary
    long blocks_allocated = -1, blocks_freed = -1; // as counted by the engine
    long allocations() const { return malloc + calloc + aligned; }
};

long number_in(const std::string &json, const std::string &key)
{
    const std::size_t at = json.find("\"" + key + "\": ");
    return at == std::string::npos ? -1 : std::atol(json.c_str() + at + key.size() + 4);
}

Calls calls_of(std::vector<std::string> words)
{
    words.insert(words.end(),
                 {"--allocator", canary_directory() + "/libcanary-count.so", "--seed", "42", "--json", "-"});
    const SpawnResult result = spawn_stress(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    Calls calls;
    const std::size_t at = result.err.find("canary: ");
    if (at != std::string::npos)
        std::sscanf(result.err.c_str() + at, "canary: malloc %ld calloc %ld realloc %ld aligned %ld free %ld",
                    &calls.malloc, &calls.calloc, &calls.realloc, &calls.aligned, &calls.free);
    EXPECT_GT(calls.malloc, 0) << result.err;
    calls.blocks_allocated = number_in(result.out, "blocks_allocated");
    calls.blocks_freed = number_in(result.out, "blocks_freed");
    EXPECT_GT(calls.blocks_allocated, 0) << result.out;
    return calls;
}

// Threads and laps are the same in both runs, so the calls that they cause in libc cancel out.
void expect_quiet(const std::vector<std::string> &words)
{
    constexpr long ops = 20000;
    std::vector<std::string> once = words, twice = words;
    once.insert(once.end(), {"--ops", std::to_string(ops)});
    twice.insert(twice.end(), {"--ops", std::to_string(2 * ops)});
    const Calls n = calls_of(once), two_n = calls_of(twice);
    EXPECT_EQ(two_n.allocations() - n.allocations(), two_n.blocks_allocated - n.blocks_allocated);
    EXPECT_EQ(two_n.free - n.free, two_n.blocks_freed - n.blocks_freed);
    EXPECT_GT(two_n.blocks_allocated - n.blocks_allocated, ops / 4);
}

TEST(Quiet, ACheckedRunAsksForNothingOfItsOwn)
{
    expect_quiet({"random-mixed", "--threads", "2"});
}

TEST(Quiet, NorDoesAnUncheckedOneWithLatencies)
{
    expect_quiet({"random-mixed", "--threads", "2", "--no-check", "--latency"});
}

TEST(Quiet, NorDoesLarsonWhoseThreadsStay)
{
    expect_quiet({"larson", "--threads", "2", "--rounds", "1000000"});
}

TEST(Quiet, NorDoesTheReportOfAResult)
{
    const std::string directory = testing::TempDir() + "hakmem-stress-quiet-" + std::to_string(getpid());
    expect_quiet({"random-mixed", "--threads", "1", "--latency", "--report", directory});
    std::filesystem::remove_all(directory);
}

} // namespace
} // namespace stress
