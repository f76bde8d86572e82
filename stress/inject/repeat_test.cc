// The command printed with a failure asks for exactly the run that failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "inject/inject.h"

namespace stress::inject {
namespace {

Settings settings_of(const std::string &kind)
{
    Settings settings;
    settings.kind = kind;
    settings.allocator = "validate";
    settings.seed = 7;
    settings.seconds = 0.25;
    settings.signal_us = 250;
    settings.watchdog_seconds = 3;
    return settings;
}

Task task_of(const Settings &settings)
{
    return {settings, "mid", Schedule::Seeded, 400, {}, 16};
}

// Parses the command as the command line would be.
Settings read_back(const Task &task)
{
    std::istringstream text(task_command(task));
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    std::vector<const char *> argv;
    for (const std::string &word : words) argv.push_back(word.c_str());
    const Parsed parsed = parse(static_cast<int>(argv.size()), argv.data(), "hakmem", {"larson", "mid"});
    EXPECT_TRUE(parsed.run) << task_command(task) << ": " << parsed.text;
    EXPECT_EQ(parsed.settings.kind, task.settings.kind);
    EXPECT_THAT(parsed.settings.scenarios, testing::ElementsAre("mid"));
    EXPECT_EQ(parsed.settings.allocator, "validate");
    EXPECT_EQ(parsed.settings.seed, 7U);
    EXPECT_EQ(parsed.settings.threads, 16U);
    EXPECT_EQ(parsed.settings.ops, task.ops);
    EXPECT_EQ(parsed.settings.watchdog_seconds, 3);
    return parsed.settings;
}

TEST(InjectRepeat, OfACall)
{
    const Settings settings = settings_of("calls");
    Task task = task_of(settings);
    task.injection.call = 12;
    const Settings once = read_back(task);
    EXPECT_EQ(once.call, 12U);
    EXPECT_FALSE(once.for_ever);
    EXPECT_FALSE(once.schedule.has_value());
    task.injection.for_ever = true;
    EXPECT_TRUE(read_back(task).for_ever);
}

TEST(InjectRepeat, UnderTheSystemsScheduler)
{
    for (const char *kind : {"calls", "space"}) {
        const Settings settings = settings_of(kind);
        Task task = task_of(settings);
        task.schedule = Schedule::Os;
        EXPECT_EQ(read_back(task).schedule, Schedule::Os) << kind;
    }
}

// A run without a limit comes before each limited run, and needs no limit to be repeated.
TEST(InjectRepeat, OfALimit)
{
    const Settings settings = settings_of("space");
    Task task = task_of(settings);
    task.injection.limit_bytes = 3 * 4096;
    EXPECT_EQ(read_back(task).limit_bytes, 3U * 4096);
    task.injection.limit_bytes = kNoLimitBytes;
    EXPECT_EQ(read_back(task).limit_bytes, 0U);
}

TEST(InjectRepeat, OfSignals)
{
    const Settings settings = settings_of("signals");
    Task task = task_of(settings);
    task.schedule = Schedule::Os;
    EXPECT_EQ(read_back(task).signal_us, 250U);
    EXPECT_EQ(read_back(task).seconds, Settings().seconds) << "as many ops, however long they take";
    task.ops = 0;
    EXPECT_EQ(read_back(task).seconds, 0.25);
}

}  // namespace
}  // namespace stress::inject
