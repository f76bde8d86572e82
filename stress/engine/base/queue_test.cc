#include "engine/base/queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace stress {
namespace {

TEST(SpscQueue, GivesItemsInOrderAndEndsEmpty)
{
    SpscQueue<int> queue(4);
    int item = 0;
    EXPECT_FALSE(queue.pop(item));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.push(i));
    EXPECT_FALSE(queue.push(4)) << "four slots hold four items";
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(queue.pop(item));
        EXPECT_EQ(item, i);
    }
    EXPECT_FALSE(queue.pop(item));
    EXPECT_TRUE(queue.push(5)) << "a slot is free again";
}

TEST(SpscQueue, IsDrainedWhenClosedAndEmpty)
{
    SpscQueue<int> queue(2);
    EXPECT_FALSE(queue.drained()) << "empty, but more may come";
    queue.push(1);
    queue.close();
    EXPECT_FALSE(queue.drained());
    int item = 0;
    queue.pop(item);
    EXPECT_TRUE(queue.drained());
}

TEST(SpscQueue, EachItemArrivesOnceBetweenThreads)
{
    SpscQueue<std::size_t> queue(8);
    constexpr std::size_t count = 100000;
    std::thread sender([&queue] {
        for (std::size_t i = 0; i < count; ++i)
            while (!queue.push(i)) std::this_thread::yield();
        queue.close();
    });
    std::size_t expected = 0;
    while (!queue.drained()) {
        std::size_t item = 0;
        if (!queue.pop(item)) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(item, expected);
        ++expected;
    }
    sender.join();
    EXPECT_EQ(expected, count);
}

}  // namespace
}  // namespace stress
