#include "campaign/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

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
        if (!run.reproduce.empty()) EXPECT_THAT(page, HasSubstr("<code>" + html_escape(run.reproduce) + "</code>"));
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
    EXPECT_THAT(page, HasSubstr("Throughput was <b>not measured</b>"));
}

// The answer first: unchecked throughput beside the others', before what failed, before every run.
TEST(Page, TheComparisonComesFirst)
{
    const MadeUpCampaign made = made_up_campaign();
    const std::string page = page_html(made.header, records(made));
    const std::size_t comparison = page.find("id=\"comparison\""), failures = page.find("id=\"failures\""),
                      every = page.find("<details id=\"every-run\">"), runs = page.find("id=\"runs\"");
    ASSERT_NE(runs, std::string::npos);
    EXPECT_LT(comparison, failures);
    EXPECT_LT(failures, every);
    EXPECT_LT(every, runs);
    const std::string first = page.substr(comparison, failures - comparison);
    EXPECT_THAT(first, HasSubstr("<b>100 M</b>"));  // the median of the rounds, not the checked 16.4 M
    EXPECT_THAT(first, Not(HasSubstr("16.40 M")));
    EXPECT_THAT(first, HasSubstr("×0.70"));
    EXPECT_THAT(first, HasSubstr("8.6 MiB"));  // 15000000 less the 6000000 of the harness
    EXPECT_THAT(first, HasSubstr("without checks"));
    EXPECT_THAT(
        first, HasSubstr("In larson and random-mixed it is that of malloc and free alone, in the loops of "
                         "<code>ci/bench times</code> (rows larson and mixed-1024); elsewhere, and in the mean, it has "
                         "the suite&#39;s own work for each call in it."));
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
    EXPECT_EQ(count(page, "<article"), 833u);
    EXPECT_THAT(page, HasSubstr("<summary>All 5000 runs"));
    // Of two runs of a cell, the table of newest runs has the newer one.
    const std::size_t newest = page.find("Newest runs"), all = page.find("<details class=\"long\"");
    EXPECT_THAT(page.substr(newest, all - newest), HasSubstr("<td class=\"n\">5000</td>"));
    EXPECT_THAT(page.substr(newest, all - newest), Not(HasSubstr("<td class=\"n\">1</td>")));
}

}  // namespace
}  // namespace stress
