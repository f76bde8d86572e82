// Tests the checks themselves: the check that is meant for a planted bug finds it, only checks that the bug also breaks
// may fail beside it, and the list of checks covers every failure class that the suite claims.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conform/canary_rows.h"
#include "conform/check.h"
#include "conform/deny.h"
#include "conform/report.h"
#include "engine/base/expect.h"
#include "engine/base/spawn_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;

std::string canary_path(const std::string &bug)
{
    return canary_directory() + "/libconform-canary-" + bug + ".so";
}

// The failed checks with their details; `exit_code` receives the program's exit status.
std::map<std::string, std::string> failures_of(const SpawnResult &result)
{
    std::map<std::string, std::string> failures;
    const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    if (json.is_discarded()) return {{"no JSON", result.out + result.err}};
    for (const auto &check : json["checks"])
        if (check["status"] == "fail") failures[check["id"]] = check["detail"];
    return failures;
}

// The slowest checks. They run in PassesWithoutABug, and here only if they are listed for the bug.
const std::set<std::string> kSlow = {
    "purge-of-one-page",          "small-out-of-data",     "large-out-of-data",       "small-out-of-address-space",
    "large-out-of-address-space", "phases-of-other-sizes", "late-free-of-large",      "calloc-from-the-system",
    "exit-with-workers",          "address-space",         "caches-of-ended-threads", "growing-and-shrinking",
    "held-up-by-a-signal",        "stopped-anywhere"};

// FNV-1a: the same with each C++ library.
std::uint64_t name_hash(const std::string &name)
{
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

// The bug's own check, those that may fail too, and about a twelfth of the others, which depends on the names only, so that
// a new check changes nothing for the others. This shows a bug that a foreign check finds; running all checks on all bugs
// would take minutes.
std::vector<std::string> arguments_for(const Canary &canary)
{
    constexpr std::size_t share = 12;
    std::vector<std::string> arguments = {
        "conform", "--allocator", canary_path(canary.bug), "--json", "-", "--deadline", "3"};
    for (const conform::Check *check : conform::all_checks()) {
        const bool is_own = canary.check == std::string_view(check->id) || canary.also.count(check->id) != 0;
        if (!is_own &&
            (kSlow.count(check->id) != 0 || name_hash(canary.bug + std::string("/") + check->id) % share != 0))
            continue;
        arguments.push_back("--only");
        arguments.push_back(check->id);
    }
    return arguments;
}

class ConformCanary : public testing::TestWithParam<Canary> {};

TEST_P(ConformCanary, IsFoundByItsCheck)
{
    const Canary &canary = GetParam();
    const SpawnResult result = spawn_stress(arguments_for(canary));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    const auto failures = failures_of(result);
    ASSERT_EQ(failures.count(canary.check), 1u) << result.err;
    EXPECT_THAT(failures.at(canary.check), HasSubstr(canary.detail));
    std::set<std::string> ids;
    for (const conform::Check *check : conform::all_checks()) ids.insert(check->id);
    for (const std::string &id : canary.also) EXPECT_EQ(ids.count(id), 1u) << "there is no check " << id;
    for (const auto &[id, detail] : failures) {
        if (id == canary.check) continue;
        EXPECT_EQ(canary.also.count(id), 1u)
            << id << " failed too: " << detail << "; if the bug breaks it, add it to `also` of " << canary.bug
            << " in stress/conform/canary_rows.h";
    }
}

INSTANTIATE_TEST_SUITE_P(Canary, ConformCanary, testing::ValuesIn(kCanaries),
                         [](const auto &tested) { return std::string(tested.param.bug); });

TEST(Conform, PassesWithoutABug)
{
    const SpawnResult result = spawn_stress({"conform", "--allocator", canary_path("none")});
    EXPECT_EQ(result.exit_code, 0) << result.out;
    EXPECT_THAT(result.out, HasSubstr(" passed, 0 failed, "));
    EXPECT_THAT(result.out, HasSubstr("skip  reallocarr  "));
    EXPECT_THAT(result.out, HasSubstr("the library does not provide reallocarr"));
}

// Runs one check on one canary and returns its part of the JSON. exit_code -1: any.
nlohmann::json check_json(const std::string &bug, const std::string &check, const std::vector<std::string> &more,
                          int exit_code = -1)
{
    std::vector<std::string> arguments = {"conform", "--allocator", canary_path(bug), "--json", "-", "--only", check};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const SpawnResult result = spawn_stress(arguments);
    if (exit_code >= 0) EXPECT_EQ(result.exit_code, exit_code) << result.err;
    nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    if (json.is_discarded() || json["checks"].size() != 1) return {{"status", result.out + result.err}};
    json["checks"][0]["said"] = result.err;
    return json["checks"][0];
}

std::string evidence_of(const nlohmann::json &check)
{
    std::string text;
    if (check.contains("evidence"))
        for (const auto &line : check["evidence"]) text += line.get<std::string>() + "\n";
    return text;
}

// The message alone says where, in what call, on which block, and how to see it again.
TEST(ConformEvidence, OfACrash)
{
    const auto check = check_json("usable_null", "usable-size-of-null", {}, 1);
    EXPECT_EQ(check["status"], "fail");
    EXPECT_EQ(check["detail"], "ended by SIGABRT, in malloc_usable_size(NULL)");
    EXPECT_THAT(evidence_of(check), testing::ContainsRegex("thread [0-9]+, which crashed:"));
    EXPECT_THAT(evidence_of(check), HasSubstr("in malloc_usable_size () from "));
    const std::string again = " conform --allocator " + canary_path("usable_null") + " --only usable-size-of-null";
    EXPECT_THAT(check["repeat"].get<std::string>(), testing::EndsWith("/hakmem-stress" + again));
}

TEST(ConformEvidence, TheCommandThatRepeatsItQuotesTheAllocator)
{
    const std::string link = testing::TempDir() + "conform a_link " + std::to_string(getpid()) + ".so";
    ASSERT_EQ(symlink(canary_path("usable_null").c_str(), link.c_str()), 0);
    const SpawnResult result = spawn_stress({"conform", "--allocator", link, "--only", "usable-size-of-null"});
    unlink(link.c_str());
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.out, HasSubstr("/hakmem-stress conform --allocator '" + link + "' --only "));
}

TEST(ConformEvidence, OfACrashInAnotherProgram)
{
    const auto check = check_json("environ", "no-environ", {}, 1);
    EXPECT_EQ(check["detail"], "ended by SIGSEGV at address 0x0");
    EXPECT_THAT(evidence_of(check), HasSubstr("in malloc () from "));
}

TEST(ConformEvidence, OfAHangInACallThatNeverEnds)
{
    const auto check = check_json("spin", "realloc-too-large-keeps-block", {"--deadline", "0.2"});
    const std::string detail = check["detail"];
    if (check["status"] == "slow") {
        // So busy a machine that the call got less than the 1.2 s of processor time that would accuse it.
        double seconds = 100;
        std::sscanf(detail.c_str(), "did not end in 12 s, of which it had a processor for %lf", &seconds);
        EXPECT_LT(seconds, 1.5) << detail;
    } else {
        EXPECT_EQ(check["status"], "fail");
        EXPECT_THAT(detail, HasSubstr("s of processor time without finishing a call"));
        // While somebody waits.
        const std::string line =
            "^hakmem-stress: realloc-too-large-keeps-block: thread [0-9]+ is in realloc\\(0x[0-9a-f]+, "
            "0x[0-9a-f]+\\): 0.[0-9] s of processor time in one call; it has failed if it takes 1.2 s";
        EXPECT_THAT(check["said"].get<std::string>(), testing::ContainsRegex(line));
    }
    EXPECT_THAT(evidence_of(check),
                testing::ContainsRegex("thread [0-9]+ is in realloc\\(0x[0-9a-f]+, 0x8000000000000000\\)"));
    EXPECT_THAT(evidence_of(check), HasSubstr("in realloc () from "));
}

// Slow is not hung, and accuses nobody.
TEST(ConformEvidence, OfASlowMalloc)
{
    const auto check = check_json("sluggish", "malloc-alignment", {"--deadline", "0.03"}, 0);
    EXPECT_EQ(check["status"], "slow");
    EXPECT_THAT(check["detail"].get<std::string>(), HasSubstr("did not end in 1.8 s, of which it had a processor for"));
}

// A kill from outside is no verdict on the malloc.
TEST(ConformEvidence, OfAKillFromOutside)
{
    const auto check = check_json("killed", "realloc-too-large-keeps-block", {}, 77);
    EXPECT_EQ(check["status"], "inconclusive");
    EXPECT_THAT(check["detail"].get<std::string>(), HasSubstr("SIGKILL from outside ended each of 3 runs; "));
}

TEST(ConformEvidence, OfAMallocThatTakesAllMemory)
{
    const auto check = check_json("touch", "above-32-bits", {"--memory-cap", "300"}, 1);
    EXPECT_EQ(check["status"], "memory cap");
    EXPECT_THAT(check["detail"].get<std::string>(),
                testing::MatchesRegex("took [0-9.]+ MiB of memory; the cap is 300.0 MiB"));
    EXPECT_THAT(evidence_of(check), HasSubstr("is in malloc(4294967297)"));
}

TEST(Conform, RefusesADeadlineOf0)
{
    const SpawnResult result = spawn_stress({"conform", "--allocator", canary_path("none"), "--deadline", "0"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--deadline: must be a number of seconds above 0, not '0'"));
}

TEST(Conform, RunsOnlyWhatWasAskedFor)
{
    const SpawnResult result = spawn_stress({"conform", "--allocator", canary_path("usable_null"), "--only",
                                             "enomem-malloc", "--only", "usable-size-of-null"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, HasSubstr("\nfailed: usable-size-of-null\n1 passed, 1 failed, 0 skipped; of the failed, "));
    EXPECT_THAT(result.out, HasSubstr("1 by a standard and 0 of quality\n"));
}

TEST(Conform, RefusesBadInputInOneLine)
{
    SpawnResult result = spawn_stress({"conform", "--allocator", canary_path("none"), "--only", "no-such-check"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err,
              "hakmem-stress: --only: unknown check 'no-such-check'; hakmem-stress conform --list names them all\n");
    result = spawn_stress({"conform", "--allocator", canary_path("none"), "--json", "/no/such/directory/x"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--json: cannot write '/no/such/directory/x'"));
}

// A check that has nothing to stop a thread with has tested nothing.
TEST(Conform, SkipsWhatTheSystemDoesNotLetItTest)
{
    const std::vector<std::string> arguments = {
        "conform", "--allocator",        canary_path("none"), "--only", "beside-a-wait-for-memory",
        "--only",  "held-up-by-a-signal"};
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_SIGPENDING, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0); // a timer needs a signal of its own
    SpawnResult result = spawn_stress(arguments);
    ASSERT_EQ(setrlimit(RLIMIT_SIGPENDING, &before), 0);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, testing::ContainsRegex("skip  beside-a-wait-for-memory .* no timer"));
    EXPECT_THAT(result.out, testing::ContainsRegex("skip  held-up-by-a-signal .* no timer"));
    bool denied = false;
    std::thread([&] {
        constexpr long calls[] = {SYS_seccomp};
        denied = conform::deny_calls(calls, EPERM);
        if (denied) result = spawn_stress({arguments.begin(), arguments.begin() + 5});
    }).join();
    ASSERT_TRUE(denied);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, testing::ContainsRegex("skip  beside-a-wait-for-memory .*seccomp notifications"));
}

// A check without a verdict does not show that a known failure is mended.
// A malloc whose calloc is never zero breaks no rule about fork.
TEST(ConformReport, AFailureThatNeedsNoCheckHasItsOwnRule)
{
    const conform::Check fork{"a-fork", "a child allocates", "quality: fork is no end", "a report", {1}, nullptr};
    const conform::Verdict plain = conform::fail("calloc(%d, 1) gave %p, which is not zero", 4096, (void *)0x7fab00);
    conform::Finding same{
        &fork, conform::fail("the child found: calloc(%d, 1) gave %p, which is not zero", 10, (void *)0xb0), 0.1, {}};
    conform::Finding other{&fork, conform::fail("the child found: malloc(%d) gave NULL", 4096), 0.1, {}};
    conform::Finding passed{&fork, conform::pass(), 0.1, {}};
    for (conform::Finding *finding : {&same, &other, &passed}) finding_compare(*finding, plain);
    EXPECT_TRUE(same.is_plain);
    EXPECT_FALSE(other.is_plain);
    EXPECT_FALSE(passed.is_plain);
    EXPECT_THAT(finding_text(same, "again"), HasSubstr("rule: C23 7.24.3: "));
    EXPECT_THAT(finding_text(other, "again"), HasSubstr("rule: quality: fork is no end\n"));
    EXPECT_EQ(conform::count_findings({same, other, passed}).failed_quality, 1);
    EXPECT_EQ(conform::plain_line({same, other, passed}, plain),
              std::string("mend this first: ") + plain.detail +
                  "; 1 of the checks fails by that, whatever it is about\n");
    EXPECT_EQ(conform::plain_line({other, passed}, plain), "");
    conform::Finding alone = same;
    alone.is_plain = false;
    finding_compare(alone, conform::pass());
    EXPECT_FALSE(alone.is_plain) << "the calls work without the check";
}

TEST(ConformExpect, OnlyAJudgedCheckCanBeMended)
{
    const conform::Check *check = conform::all_checks()[0];
    Expectations known;
    ASSERT_EQ(known.parse("known", std::string(check->id) + " fail # why", {check->id}), "");
    const auto expected = [&](conform::Status status) {
        conform::Finding finding{check, {}, 0, {}};
        finding.verdict.status = status;
        conform::finding_expect(finding, "system", known);
        return finding.expected;
    };
    for (const conform::Status status : {conform::Status::Skip, conform::Status::Slow, conform::Status::Outside}) {
        EXPECT_EQ(expected(status), "");
        EXPECT_TRUE(known.mended().empty());
    }
    EXPECT_EQ(expected(conform::Status::Memory), "");
    EXPECT_EQ(known.mended().size(), 1u);
    EXPECT_EQ(expected(conform::Status::Fail), "why");
    EXPECT_TRUE(known.mended().empty());
}

TEST(ConformExpect, AMendedLineIsNamedAndFails)
{
    const std::string path = testing::TempDir() + "/mended-" + std::to_string(getpid());
    for (const bool is_there : {true, false}) {
        std::ofstream(path) << (is_there ? "usable-size-of-null fail # why\n" : "# nothing\n");
        const SpawnResult result = spawn_stress(
            {"conform", "--allocator", canary_path("none"), "--only", "usable-size-of-null", "--expect", path});
        const bool is_named = result.out.find("mended: ") != std::string::npos;
        EXPECT_TRUE(result.exit_code == is_there && is_named == is_there) << result.out << result.err;
    }
    unlink(path.c_str());
}

TEST(ConformList, CoversEveryClassOfFailure)
{
    std::set<int> covered;
    for (const conform::Check *check : conform::all_checks())
        for (int item : check->items) covered.insert(item);
    covered.erase(0);
    std::set<int> claimed;
    for (int item = 1; item <= 33; ++item) claimed.insert(item);
    for (int item = 36; item <= 39; ++item) claimed.insert(item);
    EXPECT_EQ(covered, claimed);
}

TEST(ConformList, HasOneNameForEachCheck)
{
    std::set<std::string> ids;
    for (const conform::Check *check : conform::all_checks()) {
        EXPECT_TRUE(ids.insert(check->id).second) << check->id;
        EXPECT_THAT(check->id, testing::MatchesRegex("[a-z0-9]+(-[a-z0-9]+)*"));
        EXPECT_NE(std::string(check->purpose), "") << check->id;
        EXPECT_NE(std::string(check->references), "") << check->id;
        EXPECT_GT(std::string(check->rule).size(), 20u) << check->id;
        EXPECT_NE(check->items[0], 0) << check->id;
    }
    const SpawnResult listed = spawn_stress({"conform", "--list"});
    EXPECT_EQ(listed.exit_code, 0);
    for (const std::string &id : ids) EXPECT_THAT(listed.out, HasSubstr(id + " "));
}

} // namespace
} // namespace stress
