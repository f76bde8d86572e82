// Tests the checks themselves: the check that is meant for a planted bug finds it, only checks that the bug also breaks
// may fail beside it, and the list of checks covers every failure class that the suite claims.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conform/check.h"
#include "conform/deny.h"
#include "conform/report.h"
#include "engine/base/expect.h"
#include "engine/base/spawn_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;

struct Canary {
    const char *bug;
    const char *check; // the check that must find it
    std::set<std::string> also; // checks that may fail too, because the bug breaks what they test
    const char *detail; // part of the message
};

void PrintTo(const Canary &canary, std::ostream *out)
{
    *out << canary.bug;
}

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

// The bug's own check, those that may fail too, and every twelfth of the others, different ones for each bug. This shows
// a bug that a foreign check finds; running all checks on all bugs would take minutes.
std::vector<std::string> arguments_for(const Canary &canary)
{
    constexpr std::size_t share = 12;
    std::vector<std::string> arguments = {
        "conform", "--allocator", canary_path(canary.bug), "--json", "-", "--deadline", "3"};
    std::size_t turn = std::hash<std::string_view>{}(canary.bug);
    for (const conform::Check *check : conform::all_checks()) {
        const bool is_own = canary.check == std::string_view(check->id) || canary.also.count(check->id) != 0;
        if (!is_own && (kSlow.count(check->id) != 0 || ++turn % share != 0)) continue;
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
    for (const auto &[id, detail] : failures) {
        if (id != canary.check) EXPECT_EQ(canary.also.count(id), 1u) << id << " failed too: " << detail;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Canary, ConformCanary,
    testing::Values(
        Canary{"malloc_errno", "enomem-malloc", {}, "did not set errno"},
        Canary{"ptrdiff_errno",
               "enomem-ptrdiff-max",
               {"enomem-malloc", "enomem-realloc", "realloc-too-large-keeps-block", "around-powers-of-two"},
               "malloc of PTRDIFF_MAX bytes gave NULL and errno 0"},
        Canary{"held", "held-up-by-a-signal", {}, ""}, Canary{"popped", "stopped-anywhere", {}, ""},
        Canary{"calloc_wraps", "calloc-product-wraps", {}, "gave a block"},
        Canary{"realloc_frees", "realloc-too-large-keeps-block", {}, "the block"},
        Canary{"realloc_32_bits", "realloc-above-2-gib", {}, ""},
        Canary{"reallocarray_wraps", "reallocarray-wraps", {}, ""},
        Canary{"usable_null", "usable-size-of-null", {}, "SIGABRT"},
        Canary{"no_pvalloc", "all-entries-are-ours", {}, "pvalloc"},
        Canary{"memalign_256", "size-equals-alignment", {"alignment-sweep"}, "memalign(256, 256) is not aligned"},
        Canary{"align_again", "alignment-of-memory-again", {}, "is not aligned: it is 0x"},
        Canary{"memalign_wraps", "aligned-overflow", {"near-size-max-with-a-cache"}, "gave a block"},
        Canary{"posix_pointer", "posix-memalign-keeps-pointer", {}, "changed p"},
        Canary{"free_errno",
               "free-keeps-errno",
               {"free-keeps-errno-when-denied", "free-of-locked-pages", "POSIX.1-2024 free: free does not modify errno",
                "munmap-fails", "mapping-limit"},
               "changed errno"},
        Canary{"free_errno_denied", "free-keeps-errno-when-denied", {"munmap-fails"}, "changed errno"},
        Canary{"calloc_dirty",
               "calloc-after-dirty-free",
               {"munmap-fails", "calloc-to-the-last-byte",
                "POSIX.1-2024 free: free does not modify errno; C23 7.24.3.7: realloc returns NULL or a block",
                "calloc-after-trim", "calloc-with-huge-pages", "calloc-after-shrink", "calloc-after-grow",
                "calloc-after-remote-free", "free-of-locked-pages"},
               "is not zero"},
        Canary{"calloc_last_byte", "calloc-to-the-last-byte", {}, "is not zero"},
        Canary{
            "late_malloc",
            "alloc-in-every-round",
            {"dlmopen", "free-in-key-destructor",
             "quality: a libc that came by dlmopen has keys of its own; they must not change what a malloc of the program has stored",
             "unload"},
            "SIGABRT"},
        Canary{"only_free",
               "only-call-is-free",
               {"free-after-owner-ended", "calloc-after-remote-free",
                "C23 7.24.3: the lifetime of a block ends when it is freed, not with a thread",
                "thread-that-only-frees", "thread-without-memory", "first-call-of-a-thread", "free-in-last-rounds"},
               "SIGABRT"},
        Canary{"late_free", "free-in-last-rounds", {"thread-that-only-frees"}, "MiB resident"},
        Canary{"realloc_null", "null-and-zero", {}, "realloc(NULL, 0) gave NULL"},
        Canary{"unload", "unload", {"dlmopen"}, "SIGSEGV"}, Canary{"stack", "small-stack", {}, "SIGSEGV"},
        Canary{"fork_lock", "fork-while-getting-memory", {}, "hangs: used no processor time for 3 s; fork "},
        Canary{"fork_handlers", "fork-while-a-stream-is-held", {"atfork-first"}, "hangs: used no processor time"},
        Canary{"static_tls", "dlopen-the-library", {}, "static TLS"},
        Canary{"loader_lock", "malloc-without-the-loader", {}, "dl_iterate_phdr"},
        Canary{"environ", "no-environ", {"dlsym-first", "huge-first"}, "SIG"},
        Canary{"environ_exit", "no-environ", {"dlsym-first", "huge-first"}, "ended with status 0; its last line: ''"},
        Canary{"getrandom", "getrandom-denied", {}, "SIGABRT"},
        Canary{"mallopt", "settings", {}, "mallopt(M_MXFAST, 0)"},
        Canary{"helper", "helpers-mask-signals", {}, "took a signal"},
        Canary{"cancel", "no-cancellation-point", {}, "cancellation"},
        Canary{"calloc_slack", "calloc-slack", {}, "is not zero, and"},
        Canary{"secure", "secure-environment", {}, "canary: statistics"},
        Canary{"calloc_errno", "enomem-calloc", {"enomem-ptrdiff-max"}, "errno"},
        Canary{"realloc_errno", "enomem-realloc", {}, "errno"},
        Canary{"reallocarray_errno", "enomem-reallocarray", {}, "errno"},
        Canary{"aligned_errno", "enomem-aligned", {}, "errno"},
        Canary{"valloc_errno", "valloc-pvalloc-fail", {}, "failed with errno"},
        Canary{"align_2_60", "alignment-too-large", {}, "gave a block"},
        Canary{"posix_0", "posix-memalign-size-0", {}, "not aligned"},
        Canary{"pvalloc_short", "pvalloc-usable", {}, "below"},
        Canary{"reallocarray_null", "reallocarray-null-and-zero", {}, "gave NULL"},
        Canary{"realloc_steps", "realloc-in-small-steps", {}, "copied the block 200 times"},
        Canary{"calloc_touch", "calloc-untouched", {}, "MiB resident"},
        Canary{"leave_space", "threads-under-a-limit", {}, "malloc gives NULL"},
        Canary{"begin_once", "calls-under-a-lock", {}, "hangs: used no processor time"},
        Canary{"late_library", "destructors-after-the-library", {}, "SIGABRT"},
        Canary{"reallocarr_wraps", "reallocarr-wraps", {}, "returned 0"},
        Canary{"fork_fork", "fork-child-forks", {}, "the child"},
        Canary{"fork_thread", "fork-from-a-thread", {}, "SIGABRT"}),
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
    const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    if (json.is_discarded() || json["checks"].size() != 1) return {{"status", result.out + result.err}};
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
