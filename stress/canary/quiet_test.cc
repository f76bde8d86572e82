// The engine takes nothing of its own from the malloc under test while a run goes on: what a canary that counts
// is asked for in a run of 2N ops, less what it is asked for in a run of N ops, is what N ops ask for.
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/spawn_for_test.h"

namespace stress {
namespace {

struct Calls {
    long malloc = -1, calloc = 0, realloc = 0, aligned = 0, free = 0;
    long allocations() const { return malloc + calloc + aligned; }
};

Calls calls_of(std::vector<std::string> words)
{
    words.insert(words.end(), {"--allocator", canary_directory() + "/libcanary-count.so", "--seed", "42"});
    const SpawnResult result = spawn_stress(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    Calls calls;
    const std::size_t at = result.err.find("canary: ");
    if (at != std::string::npos)
        std::sscanf(result.err.c_str() + at, "canary: malloc %ld calloc %ld realloc %ld aligned %ld free %ld",
                    &calls.malloc, &calls.calloc, &calls.realloc, &calls.aligned, &calls.free);
    EXPECT_GT(calls.malloc, 0) << result.err;
    return calls;
}

// One op is one call, and at the end every block is freed: of N ops A allocate, A free (some of them the sweep),
// and the others reallocate or do nothing. Threads and laps are the same in both runs, so what they cost in libc
// cancels out.
void expect_quiet(const std::vector<std::string> &words)
{
    constexpr long ops = 20000;
    std::vector<std::string> once = words, twice = words;
    once.insert(once.end(), {"--ops", std::to_string(ops)});
    twice.insert(twice.end(), {"--ops", std::to_string(2 * ops)});
    const Calls n = calls_of(once), two_n = calls_of(twice);
    const long allocated = two_n.allocations() - n.allocations(), freed = two_n.free - n.free;
    EXPECT_EQ(allocated, freed);
    EXPECT_GT(allocated, ops / 4);
    // The sweep frees what is live, a few hundred blocks; every other call is one op.
    const long calls = allocated + freed + two_n.realloc - n.realloc;
    EXPECT_NEAR(static_cast<double>(calls), static_cast<double>(ops), 600);
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
    expect_quiet({"random-mixed", "--threads", "1", "--json", "/dev/null", "--latency"});
}

}  // namespace
}  // namespace stress
