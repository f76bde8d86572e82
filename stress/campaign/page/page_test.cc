#include "campaign/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "campaign/page/directed.h"
#include "campaign/page/html.h"
#include "campaign/runs_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<RunRecord> records(const MadeUpCampaign &made)
{
    std::vector<RunRecord> runs;
    for (const std::string &result : made.results) {
        runs.push_back(record_read(result));
        runs.back().file = "file-" + std::to_string(runs.size()) + ".json";
    }
    return runs;
}

std::size_t count(const std::string &text, const std::string &word)
{
    std::size_t found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
}

// The list of verdicts, and text without its tags.
std::string verdicts_of(const std::string &page)
{
    const std::size_t from = page.find("<ul class=\"verdicts\">");
    return page.substr(from, page.find("<p class=\"counts\">") - from);
}

std::string text_of(const std::string &html)
{
    std::string text;
    bool in_tag = false;
    for (const char c : html) {
        if (c == '<') in_tag = true;
        if (!in_tag && (c != '\n' || !text.ends_with('\n'))) text += c;
        if (c == '>') in_tag = false;
    }
    return text;
}

TEST(Page, HoldsEachFailureWithItsCommand)
{
    const MadeUpCampaign made = made_up_campaign();
    const std::vector<RunRecord> runs = records(made);
    const std::string page = page_html(made.header, runs);
    std::size_t failures = 0;
    for (const RunRecord &run : runs) {
        if (run.verdict != RunVerdict::Fail) continue;
        for (const RunFailure &failure : run.failures) {
            ++failures;
            EXPECT_THAT(page, HasSubstr("<b>" + html_escape(failure.rule) + "</b>"));
            EXPECT_THAT(page, HasSubstr(html_escape(failure.detail)));
        }
        EXPECT_THAT(page, HasSubstr("results/" + run.file));
        if (!run.reproduce.empty()) EXPECT_THAT(page, HasSubstr("<code>" + html_command(run.reproduce) + "</code>"));
    }
    EXPECT_EQ(failures, 4u);
    EXPECT_EQ(count(page, "<article"), 3u);
}

TEST(Page, NothingOfASubjectIsMarkup)
{
    MadeUpCampaign made = made_up_campaign();
    std::vector<RunRecord> runs = records(made);
    const std::string evil = "\"'><script>evil()</script><img src=x onerror=evil()>";
    for (RunRecord &run : runs) {
        run.scenario = run.allocator = run.schedule = run.file = run.reproduce = run.schedule_hash = evil;
        run.skip_reason = evil;
        for (RunFailure &failure : run.failures) failure = {evil, evil};
    }
    made.header.command = made.header.options = made.header.machine.kernel = made.header.machine.processor = evil;
    const std::string page = page_html(made.header, runs);
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;evil()"));
    EXPECT_THAT(page, Not(HasSubstr("'><")));
}

TEST(Page, AsksForNothingFromOutside)
{
    const MadeUpCampaign made = made_up_campaign();
    const std::string page = page_html(made.header, records(made));
    for (const char *word : {"http://", "https://", "src=", "url(", "@import", "<script", "javascript:"})
        EXPECT_THAT(page, Not(HasSubstr(word)));
    EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(Page, TagsAreClosedAndNamesAreUnique)
{
    const MadeUpCampaign made = made_up_campaign();
    const std::string page = page_html(made.header, records(made));
    for (const char *tag :
         {"section", "figure",  "figcaption", "table", "thead", "tbody", "tr", "td", "details", "summary",
          "div",     "article", "pre",        "code",  "svg",   "ul",    "li", "dl", "p",       "span"})
        EXPECT_EQ(count(page, std::string("<") + tag + " ") + count(page, std::string("<") + tag + ">"),
                  count(page, std::string("</") + tag + ">"))
            << tag;
    std::vector<std::string> names;
    const std::regex name(" id=\"([^\"]*)\"");
    for (std::sregex_iterator found(page.begin(), page.end(), name), none; found != none; ++found)
        names.push_back((*found)[1]);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
    EXPECT_GE(names.size(), 20u);
}

TEST(Page, WhatWasNotMeasuredSaysSo)
{
    const MadeUpCampaign made = made_up_campaign();
    RunRecord run = record_read(R"({"scenario": "larson", "allocator": "a", "verdict": "pass"})");
    const std::string page = page_html(made.header, {run});
    EXPECT_GE(count(page, "not measured"), 8u);
    EXPECT_THAT(page, Not(HasSubstr("nan")));
    EXPECT_THAT(page_html(made.header, {}), HasSubstr("<h2>Runs</h2>"));
    EXPECT_THAT(page, HasSubstr("Speed was <b>not measured</b>"));
}

// May it be trusted, what failed, where is it bad, what was not judged, then every run.
TEST(Page, TheVerdictComesFirst)
{
    const MadeUpCampaign made = made_up_campaign();
    const std::string page = page_html(made.header, records(made));
    std::size_t before = 0;
    for (const char *part :
         {"<h1", "class=\"verdicts\"", "id=\"failures\"", "id=\"directed\"", "id=\"comparison\"", "id=\"skips\"",
          "<details id=\"every-run\">", "id=\"runs\"", "id=\"memory\"", "id=\"latency\"", "id=\"about\""}) {
        const std::size_t at = page.find(part);
        ASSERT_NE(at, std::string::npos) << part;
        EXPECT_LT(before, at) << part;
        before = at;
    }
    const std::string verdicts = verdicts_of(page);
    EXPECT_EQ(text_of(verdicts), "\n"
                                 "✓ passes hakmem failed: 0 of 18 runs\n"
                                 "✗ fails validate failed: 1 of 18 runs\n"
                                 "memory_bound in random-mixed\n"
                                 "slower than hakmem in larson ×0.70, random-mixed ×0.70 and 1 more\n"
                                 "✗ fails libjemalloc.so.2 failed: 1 of 16 runs; 1 skipped\n"
                                 "crash in larson\n"
                                 "content in larson\n"
                                 "slower than hakmem in larson ×0.49, random-mixed ×0.49 and 1 more\n");
    // Each link leads to its failure.
    const std::regex link("href=\"#(failure\\d+)\">([a-z-]+)<");
    std::size_t links = 0;
    for (std::sregex_iterator found(verdicts.begin(), verdicts.end(), link), none; found != none; ++found, ++links)
        EXPECT_LT(
            page.find("id=\"" + (*found)[1].str() + "\""),
            page.find(">" + (*found)[2].str() + "</span> on <span", page.find("id=\"" + (*found)[1].str() + "\"")));
    EXPECT_EQ(links, 3u);
    EXPECT_THAT(page, HasSubstr("<span class=\"name\">libjemalloc.so.2</span>: random-mixed"));
}

// Scenarios by rule, checks by standard, what only quality asks for last; the names beyond that are counted.
TEST(Page, TheVerdictIsByRule)
{
    MadeUpCampaign made = made_up_large_campaign();
    made.header.directed = {directed_read(made.conform)};
    const std::string verdicts = text_of(verdicts_of(page_html(made.header, records(made))));
    EXPECT_THAT(verdicts, HasSubstr("✗ fails libjemalloc.so.2 failed: 2 of 78 runs\n"
                                    "memory_bound in purge-cycle, idle\n"));
    EXPECT_THAT(verdicts,
                HasSubstr("✗ fails mine.so failed: 26 of 78 runs, 10 of 11 checks of a standard, 6 of 6 of quality\n"
                          "overlap in larson, random-mixed, remote-free, mid and 22 more\n"
                          "crash in large, calloc, tls-destructors, oom, limit\n"
                          "content in huge, purge-cycle, fork, idle\n"
                          "also progress, calloc_zero, memory_bound\n"
                          "against C23: realloc-of-kind-0, realloc-of-kind-1, realloc-of-kind-2, realloc-of-kind-3 "
                          "and 3 more\n"
                          "against POSIX.1-2024: after-fork, errno-kept\n"
                          "against C++20: new-aligned\n"
                          "only of quality, no failure: memory-goes-back-0, memory-goes-back-1, memory-goes-back-2, "
                          "memory-goes-back-3 and 2 more\n"));
    // A known defect is no failure.
    for (DirectedFinding &finding : made.header.directed[0].failed) finding.is_known = true;
    std::vector<RunRecord> runs = records(made);
    for (RunRecord &run : runs) run.expected = "a known defect";
    const std::string known = text_of(verdicts_of(page_html(made.header, runs)));
    EXPECT_THAT(known, Not(HasSubstr("overlap")));
    EXPECT_THAT(known, Not(HasSubstr("against")));
    made.header.directed.clear();
    const std::string passes = text_of(verdicts_of(page_html(made.header, runs)));
    EXPECT_THAT(passes, Not(HasSubstr("✗ fails")));
    EXPECT_THAT(passes, HasSubstr("✓ passes mine.so failed: 0 of 78 runs"));
}

TEST(Page, ComparesWithoutContradiction)
{
    const MadeUpCampaign made = made_up_campaign();
    const std::string page = page_html(made.header, records(made));
    const std::string first =
        page.substr(page.find("id=\"comparison\""), page.find("id=\"skips\"") - page.find("id=\"comparison\""));
    EXPECT_THAT(first, HasSubstr("<b>100 M</b>"));  // the baseline's median of the rounds, not the checked 16.4 M
    EXPECT_THAT(first, Not(HasSubstr("16.40 M")));
    EXPECT_THAT(first, Not(HasSubstr("<b>70"))); // the others have a ratio only
    EXPECT_THAT(first, HasSubstr("<b>×0.70</b> ▾"));
    EXPECT_THAT(first, HasSubstr("8.6 MiB"));  // 15000000 less the 6000000 of the harness
    EXPECT_THAT(first, HasSubstr("without checks"));
    EXPECT_THAT(first, HasSubstr("threads replace random blocks in a window that outlives them"));
    EXPECT_THAT(
        first, HasSubstr("In larson and random-mixed it is that of malloc and free alone, in the loops of "
                         "<code>ci/bench times</code> (rows larson and mixed-1024); elsewhere, and in the mean, it has "
                         "the suite&#39;s own work for each call in it."));
}

// A loss is marked where it is one, by its own bound, and named in the list.
TEST(Page, MarksLosses)
{
    const MadeUpCampaign made = made_up_campaign();
    std::string headline;
    const auto page_of = [&](double rate, double tail, double memory) {
        std::vector<RunRecord> runs;
        for (const bool is_base : {true, false})
            for (const RunMode mode : {RunMode::Check, RunMode::Speed, RunMode::Tails}) {
                RunRecord run;
                run.verdict = RunVerdict::Pass;
                run.mode = mode;
                run.scenario = "larson";
                run.allocator = is_base ? "system" : "/x/mine.so";
                run.seed = 1;
                if (mode == RunMode::Speed) run.ops_per_second = is_base ? 1e6 : 1e6 * rate;
                run.malloc_ns = {100, 20, 20, 20, is_base ? 1000u : static_cast<std::uint64_t>(1000 * tail), 5000};
                run.start_rss_bytes = 1 << 20;
                run.peak_rss_bytes = (std::uint64_t{1} << 20) +
                                     (is_base ? 100u << 20 : static_cast<std::uint64_t>((100u << 20) * memory));
                runs.push_back(run);
            }
        const std::string page = page_html(made.header, runs);
        const std::size_t list = page.find("class=\"card losses\"");
        headline = page.substr(0, page.find("</header>"));
        return page.substr(list, page.find("</dl>", list) - list);
    };
    EXPECT_EQ(count(page_of(1, 1, 1), "none"), 3u);
    EXPECT_EQ(count(page_of(0.96, 1.49, 1.09), "none"), 3u);
    EXPECT_THAT(headline, Not(HasSubstr(">than libc<")));
    EXPECT_THAT(page_of(0.94, 1, 1),
                HasSubstr("<b>speed:</b> <span class=\"name\">larson ×0.94</span><br><b>p99.9:</b> none"));
    EXPECT_THAT(page_of(1, 1.51, 1), HasSubstr("<b>p99.9:</b> <span class=\"name\">larson ×1.51</span>"));
    EXPECT_THAT(page_of(1, 1, 1.11), HasSubstr("<b>memory:</b> <span class=\"name\">larson ×1.11</span>"));
    page_of(0.5, 2, 3); // the headline has it, too
    EXPECT_THAT(text_of(headline), HasSubstr("slower than libc in larson ×0.50\n"
                                             "later (p99.9) than libc in larson ×2.00\n"
                                             "larger than libc in larson ×3.00\n"));
}

// What a standard demands decides; what only quality asks for does not.
TEST(Page, DirectedChecksDecideByStandardsAlone)
{
    MadeUpCampaign made = made_up_campaign();
    std::vector<RunRecord> runs = records(made);
    std::erase_if(runs, [](const RunRecord &run) { return run.allocator != "hakmem"; });
    const auto with = [&](const char *rule, const char *status) {
        made.header.directed = {
            directed_read(std::string(R"({"allocator": "hakmem", "checks": [{"id": "a-check", "status": ")") + status +
                          R"(", "rule": ")" + rule + R"(", "detail": "what it did"}]})")};
        made.header.state.failed = 0;
        return page_html(made.header, runs);
    };
    EXPECT_THAT(with("C17", "fail"), HasSubstr("hakmem fails</h1>"));
    EXPECT_THAT(text_of(verdicts_of(with("C17", "fail"))),
                HasSubstr("1 of 1 checks of a standard, 0 of 0 of quality\nagainst C17: a-check\n"));
    EXPECT_THAT(with("C17", "fail"), HasSubstr("<a class=\"name\" href=\"#check0-0\">a-check</a>"));
    EXPECT_THAT(with("C17", "fail"), HasSubstr("<details id=\"check0-0\">"));
    EXPECT_THAT(with("C17", "fail"), HasSubstr("<span>--only a-check</span></code>"));
    EXPECT_THAT(with("quality: more", "fail"), HasSubstr("hakmem passes</h1>"));
    EXPECT_THAT(with("quality: more", "fail"), HasSubstr("what it did"));
    EXPECT_THAT(text_of(verdicts_of(with("quality: more", "fail"))),
                HasSubstr("only of quality, no failure: a-check\n"));
    EXPECT_THAT(text_of(verdicts_of(with("quality: more", "fail"))), Not(HasSubstr("against")));
    EXPECT_THAT(with("C17", "pass"), HasSubstr("hakmem passes</h1>"));
    made.header.directed.clear();
    EXPECT_THAT(page_html(made.header, runs), HasSubstr("Not run."));
}

// What the figures are depends on what was timed.
TEST(Page, ThroughputSaysWhatItIsOf)
{
    const MadeUpCampaign made = made_up_campaign();
    std::vector<RunRecord> runs = records(made);
    for (RunRecord &run : runs)
        if (run.scenario == "remote-free") run.loop = "remote-free";
    EXPECT_THAT(
        page_html(made.header, runs),
        HasSubstr("In larson, random-mixed and remote-free it is that of malloc and free alone, in the loops of "
                  "<code>ci/bench times</code> (rows larson, mixed-1024 and remote-free)."));
    for (RunRecord &run : runs) run.loop = "";
    EXPECT_THAT(page_html(made.header, runs), HasSubstr("It has the suite&#39;s own work for each call in it."));
}

TEST(Page, TwoLibrariesOfOneNameAreToldApart)
{
    MadeUpCampaign made = made_up_campaign();
    std::vector<RunRecord> runs = records(made);
    for (RunRecord &run : runs)
        if (run.allocator == "hakmem") run.allocator = "/build/new/libjemalloc.so.2";
    const std::string page = page_html(made.header, runs);
    EXPECT_THAT(page, HasSubstr("new/libjemalloc.so.2"));
    EXPECT_THAT(page, HasSubstr("mallocs/libjemalloc.so.2"));
    EXPECT_THAT(page, Not(HasSubstr(">libjemalloc.so.2<")));
}

TEST(Page, Headlines)
{
    MadeUpCampaign made = made_up_campaign();
    SoakState &s = made.header.state;
    const auto headline = [&](std::uint64_t passed, std::uint64_t failed) {
        s.passed = passed;
        s.failed = failed;
        const std::string page = page_html(made.header, {});
        const std::size_t at = page.find("<h1");
        return page.substr(page.find('>', at) + 1, page.find("</h1>") - page.find('>', at) - 1);
    };
    EXPECT_EQ(headline(0, 0), "No run has ended yet");
    EXPECT_EQ(headline(1, 0), "The run passed");
    EXPECT_EQ(headline(7, 0), "All 7 runs passed");
    EXPECT_EQ(headline(7, 2), "2 of 9 runs failed");
    EXPECT_EQ(headline(0, 2), "All 2 runs failed");
    made.header.complete = false;
    EXPECT_EQ(headline(7, 2), "2 of 9 runs failed, so far");
}

// A malloc whose runs were all skipped comes first: the verdict names the other one.
TEST(Page, TheVerdictNamesTheOneThatWasJudged)
{
    const MadeUpCampaign made = made_up_campaign();
    std::vector<RunRecord> runs = records(made);
    runs.erase(runs.begin() + 4, runs.end());
    for (RunRecord &run : runs)
        if (run.allocator == "hakmem") run.verdict = RunVerdict::Skip;
    EXPECT_THAT(page_html(made.header, runs), HasSubstr(">validate passes</h1>"));
}

// 5000 runs: figures only for the newest of each kind, all failures, and a folded table.
TEST(Page, ABigCampaignStaysUsable)
{
    const MadeUpCampaign made = made_up_campaign();
    std::vector<RunRecord> some = records(made);
    some.resize(18); // the checked ones
    std::vector<RunRecord> runs;
    while (runs.size() < 5000) {
        runs.push_back(some[runs.size() % some.size()]);
        runs.back().seed = runs.size();
    }
    const std::string page = page_html(made.header, runs);
    EXPECT_LT(page.size(), 6u << 20);
    EXPECT_LT(count(page, "<svg"), 30u);
    EXPECT_EQ(count(page, "<article"), 3u); // one for each malloc, scenario and set of rules
    EXPECT_THAT(page, HasSubstr("<summary>277 more runs by the same rules"));
    EXPECT_THAT(page, HasSubstr("<summary>All 5000 runs"));
    // Of two runs of a cell, the table of newest runs has the newer one.
    const std::size_t runs_at = page.find("id=\"runs\""), all = page.find("<summary>All 5000 runs");
    EXPECT_THAT(page.substr(runs_at, all - runs_at), HasSubstr("<td class=\"n\">5000</td>"));
    EXPECT_THAT(page.substr(runs_at, all - runs_at), Not(HasSubstr("<td class=\"n\">1</td>")));
}

}  // namespace
}  // namespace stress
