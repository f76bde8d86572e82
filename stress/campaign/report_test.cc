#include "campaign/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/file.h"
#include "campaign/runs_for_test.h"
#include "campaign/temporary_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Report, OfOneRun)
{
    Temporary temporary;
    const std::string directory = temporary.path("deep/er");
    ASSERT_EQ(report_one(directory, made_up_campaign().results[0], "the command"), "");
    const std::string page = text_of_file(directory + "/index.html");
    EXPECT_THAT(page, HasSubstr("hakmem passes</h1>"));
    EXPECT_THAT(page, HasSubstr("<code><span>the</span> <span>command</span></code>"));
    EXPECT_EQ(directory_names(directory + "/results"), std::vector<std::string>{"00000000-larson-hakmem-os-pass.json"});
    // The next report replaces it.
    ASSERT_EQ(report_one(directory, made_up_campaign().results[4], "x"), "");
    EXPECT_EQ(directory_names(directory + "/results").size(), 1u);
    EXPECT_THAT(text_of_file(directory + "/index.html"), HasSubstr("fails</h1>"));
}

TEST(Report, LeavesAloneWhatIsNotOurs)
{
    Temporary temporary;
    const std::string mine = temporary.path("mine");
    ASSERT_EQ(directory_make(mine + "/results"), "");
    write_file(mine + "/index.html", "my page");
    EXPECT_THAT(report_one(mine, "{}", "x"), HasSubstr("no report of this program; name another directory"));
    EXPECT_EQ(text_of_file(mine + "/index.html"), "my page");

    const std::string data = temporary.path("data");
    ASSERT_EQ(directory_make(data + "/results"), "");
    write_file(data + "/results/measured.json", "precious");
    write_file(data + "/results/2024-results.json", "precious");
    ASSERT_EQ(report_one(data, "{}", "x"), "");
    EXPECT_EQ(text_of_file(data + "/results/measured.json"), "precious");
    EXPECT_EQ(text_of_file(data + "/results/2024-results.json"), "precious");

    const std::string soak = temporary.path("soak");
    ASSERT_EQ(directory_make(soak), "");
    write_file(soak + "/soak.json", "hours");
    EXPECT_THAT(report_one(soak, "{}", "x"), HasSubstr("holds a soak"));
    EXPECT_EQ(text_of_file(soak + "/soak.json"), "hours");
}

TEST(Report, PlacesThatCannotBeWritten)
{
    Temporary temporary;
    write_file(temporary.path("file"), "x");
    EXPECT_THAT(report_one(temporary.path("file/x"), "{}", "x"), HasSubstr("name a directory"));
    EXPECT_THAT(report_one("/proc/no", "{}", "x"), HasSubstr("name a directory"));
    const std::string path = temporary.path("shared");
    ReportDirectory first(path);
    ASSERT_EQ(first.open(true), "");
    ReportDirectory second(path);
    EXPECT_THAT(second.open(true), HasSubstr("another campaign writes to"));
}

TEST(Report, AFileThatIsNoResultIsAFailingRow)
{
    Temporary temporary;
    const std::string path = temporary.path("r");
    ReportDirectory directory(path);
    ASSERT_EQ(directory.open(true), "");
    const RunRecord record = record_read(made_up_campaign().results[0]);
    ASSERT_EQ(directory.add(0, record, made_up_campaign().results[0].substr(0, 100)), "");
    std::filesystem::create_directory(path + "/results/00000001-x-y-os-pass.json");
    std::filesystem::create_symlink("/no/such", path + "/results/00000002-x-y-os-pass.json");
    ReportHeader header;
    ASSERT_EQ(directory.write_page(header), "");
    const std::string page = text_of_file(path + "/index.html");
    EXPECT_THAT(page, HasSubstr("no complete JSON"));
    EXPECT_THAT(page, HasSubstr("00000001-x-y-os-pass.json"));
    EXPECT_THAT(page, HasSubstr("cannot read"));
    EXPECT_THAT(page, HasSubstr("No such file"));
}

TEST(Report, ShowsTheSurfaceIfItsMapIsThere)
{
    Temporary temporary;
    const std::string path = temporary.path("r");
    ReportDirectory directory(path);
    ASSERT_EQ(directory.open(true), "");
    ASSERT_EQ(directory.write_page({}), "");
    EXPECT_THAT(text_of_file(path + "/index.html"), Not(HasSubstr("id=\"surface\"")));
    write_file(path + "/surface.svg", "<svg>#50%\n</svg>");
    ASSERT_EQ(directory.write_page({}), "");
    EXPECT_THAT(text_of_file(path + "/index.html"),
                HasSubstr("src=\"data:image/svg+xml,%3Csvg%3E%2350%25%0A%3C/svg%3E\""));
}

TEST(Report, KeepsTheNewestPassesAndTheFirstFailures)
{
    Temporary temporary;
    const std::string path = temporary.path("r");
    ReportDirectory directory(path);
    ASSERT_EQ(directory.open(true), "");
    const std::string results = path + "/results";
    RunRecord pass = record_read(R"({"scenario": "s", "allocator": "a", "verdict": "pass"})"), fail = pass;
    fail.verdict = RunVerdict::Fail;
    // As if 4999 results of each kind were already there; empty files, for speed.
    for (std::uint64_t run = 0; run < 9998; ++run) {
        const bool passed = run % 2 == 0;
        write_file(results + "/0000" + std::to_string(10000 + run).substr(1) + "-s-a-os-" + (passed ? "pass" : "fail") +
                       ".json",
                   "");
    }
    directory.drop_from(9998);
    EXPECT_EQ(directory_names(results).size(), 9998u);
    for (std::uint64_t run = 9998; run < 10002; ++run)
        ASSERT_EQ(directory.add(run, run % 2 == 0 ? pass : fail, "{}"), "");
    const std::vector<std::string> names = directory_names(results);
    EXPECT_EQ(names.size(), 10000u);
    EXPECT_EQ(names.front(), "00000001-s-a-os-fail.json");  // pass 0 made room
    EXPECT_EQ(names.back(), "00010000-s-a-os-pass.json");   // failure 10001 was not kept, 9999 was
    EXPECT_TRUE(file_exists(results + "/00009999-s-a-os-fail.json"));
}

TEST(File, ReplaceIsWholeOrNot)
{
    Temporary temporary;
    const std::string path = temporary.path("f");
    ASSERT_EQ(file_replace(path, "old"), "");
    // The new text cannot be put in place, so the old one stays.
    std::filesystem::create_directory(path + ".new");
    EXPECT_NE(file_replace(path, "new"), "");
    std::string text;
    EXPECT_EQ(file_read(path, text), "");
    EXPECT_EQ(text, "old");
    EXPECT_NE(file_read(path, text, 2), "");
    EXPECT_NE(file_read(temporary.path("none"), text), "");
}

}  // namespace
}  // namespace stress
