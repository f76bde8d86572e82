// gdb's output as the suite shows it.
#include "engine/watch/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stress {
namespace {

using testing::ElementsAre;

// Threads 1 to `count`, as gdb prints them.
std::string threads_text(int count)
{
    std::string text;
    for (int i = 1; i <= count; ++i) {
        const std::string number = std::to_string(i);
        text += "\nThread " + number + " (Thread 0x7f0 (LWP " + number + ") \"a\"):\n#0  in_handler ()\n" +
                "#1  <signal handler called>\n#2  0x00001 in culprit_" + number +
                " ()\n#3  0x00002 in start_thread ()\n";
    }
    return text;
}

TEST(Stack, TheThreadThatCrashedComesFirstWhateverItsNumber)
{
    const std::vector<std::string> few = stack_read(threads_text(2), 2);
    EXPECT_THAT(few, ElementsAre("thread 2, which crashed:", "  #0 0x00001 in culprit_2 ()", "thread 1:",
                                 "  #0 in_handler ()", "  #1 <signal handler called>", "  #2 0x00001 in culprit_1 ()"));
    const std::vector<std::string> many = stack_read(threads_text(20), 18);
    EXPECT_EQ(many.at(0), "thread 18, which crashed:");
    EXPECT_EQ(many.at(1), "  #0 0x00001 in culprit_18 ()");
    EXPECT_EQ(many.back(), "and 4 more threads");
}

} // namespace
} // namespace stress
