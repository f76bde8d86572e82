#include "engine/seat/seat_report.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <latch>
#include <memory>
#include <regex>
#include <thread>
#include <vector>

#include "engine/base/build.h"
#include "program/op_syntax.h"

namespace stress {
namespace {

std::string line_of(const Op &op)
{
    SafeText text;
    op_line(text, op);
    return text.c_str();
}

TEST(SafeText, NumbersInEveryBase)
{
    SafeText text;
    text.add_number(0).add(" ").add_number(18446744073709551615ULL).add(" ").add_hex(0xbeef).add(" ");
    text.add_number(7, 10, 3);
    EXPECT_STREQ(text.c_str(), "0 18446744073709551615 0xbeef 007");
}

TEST(SafeText, JsonStringsAreEscaped)
{
    SafeText text;
    text.add_json("a\"b\\c\n\xff");
    EXPECT_STREQ(text.c_str(), "a\\\"b\\\\c\\u000a\\u00ff");
}

TEST(SafeText, WhatDoesNotFitIsCutOff)
{
    SafeText text;
    for (int i = 0; i < 1000; ++i) text.add("0123456789");
    EXPECT_LT(text.size(), 10000u);
    EXPECT_EQ(std::string(text.c_str()).size(), text.size());
}

TEST(SeatReport, OpsReadLikeC)
{
    EXPECT_EQ(line_of(op_make(OpKind::Malloc, 5, 100)), "b5 = malloc(100)");
    EXPECT_EQ(line_of(op_make(OpKind::Free, 7)), "free(b7)");
    EXPECT_EQ(line_of(op_make(OpKind::Realloc, 7, 24)), "b7 = realloc(b7, 24)");
    EXPECT_EQ(line_of(op_make(OpKind::Calloc, 1, 8, 3)), "b1 = calloc(3, 8)");
    EXPECT_EQ(line_of(op_make(OpKind::AlignedAlloc, 2, 128, 6)), "b2 = aligned_alloc(64, 128)");
    EXPECT_EQ(line_of(op_make(OpKind::Malloc, 0, SIZE_MAX - 4096)), "b0 = malloc(SIZE_MAX-4096)");
    EXPECT_EQ(line_of(op_make(OpKind::Free, 7, 0, 0, 2)), "free(b7) link 2");
    EXPECT_EQ(line_of(op_make(OpKind::Purge, 0)), "purge()");
    EXPECT_EQ(line_of(op_make(OpKind::PosixMemalign, 2, 0, 12)), "b2 = posix_memalign(4096, 0)");
    EXPECT_EQ(line_of(op_make(OpKind::Memalign, 2, SIZE_MAX, 0)), "b2 = memalign(1, SIZE_MAX-0)");
    EXPECT_EQ(line_of(op_make(OpKind::ReallocArray, 2, 7, 3)), "b2 = reallocarray(b2, 3, 7)");
    EXPECT_EQ(line_of(op_make(OpKind::FreeSized, 2)), "free_sized(b2)");
    EXPECT_EQ(line_of(op_make(OpKind::Check, 2, 0, 0, 65535)), "check(b2) link 65535");
    EXPECT_EQ(line_of(op_make(OpKind::Fork, 0, 0, 3)), "fork(3, 0)");
    EXPECT_EQ(line_of(op_make(OpKind::Sleep, 0, 3)), "sleep_ms(0, 3)");
    EXPECT_EQ(line_of(op_make(static_cast<OpKind>(kOpKindCount), 9)), "?()");
    for (std::size_t kind = 0; kind < kOpKindCount; ++kind)
        EXPECT_NE(line_of(op_make(static_cast<OpKind>(kind), 0)).find(std::string(kOpSyntax[kind].name) + "("),
                  std::string::npos);
}

// Seats with threads that wait, or without: what is reported of each.
class SeatReports : public testing::Test {
  protected:
    std::atomic<bool> stop{false};
    FailureLog failures{stop};
    ClaimMap claims;
    Oracle oracle{claims, failures};
    Slots slots{8};
    InterpShared shared{oracle, slots, stop};
    std::vector<std::unique_ptr<Seat>> made;
    std::vector<std::unique_ptr<Generator>> generators;

    void SetUp() override
    {
        if (kSanitized) GTEST_SKIP() << "a sanitizer delays signals";
    }

    struct Count {
        std::size_t at, end;
        bool next(Op &op)
        {
            op = op_make(OpKind::Malloc, static_cast<std::uint32_t>(at), 8);
            return at++ < end;
        }
    };

    // A seat that has consumed `consumed` ops, and has drawn one more or not.
    Seat &seat(std::size_t consumed, bool more)
    {
        made.push_back(std::make_unique<Seat>(static_cast<std::uint32_t>(made.size()), shared, Support(), true));
        generators.push_back(generator_of(Count{0, consumed + more}));
        made.back()->ops.generator = generators.back().get();
        for (std::size_t i = 0; i < consumed; ++i) {
            made.back()->ops.next_op();
            made.back()->ops.consume();
        }
        made.back()->ops.next_op();
        return *made.back();
    }

    // The report, with numbers of threads and addresses as "N".
    std::string report(bool stacks, std::size_t seats, int answer_ms_max = 5000)
    {
        Mapped<Seat *> all(seats);
        for (std::size_t i = 0; i < seats; ++i) all[i] = made[i % made.size()].get();
        const int fd = memfd_create("report", 0);
        seat_report_prepare();
        seat_report_all(fd, all, stacks, answer_ms_max);
        std::string text(static_cast<std::size_t>(lseek(fd, 0, SEEK_END)), '\0');
        EXPECT_EQ(pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
        close(fd);
        return std::regex_replace(text, std::regex("tid [0-9]+"), "tid N");
    }
};

TEST_F(SeatReports, OfTheMainThreadIfNobodySits)
{
    seat(0, false);
    seat(1, false);
    seat(1, true);
    seat(10, true);
    const std::string ops = "  last ops of thread 0:\n"
                            "  last ops of thread 1:\n    0: b0 = malloc(8)\n"
                            "  last ops of thread 2:\n    0: b0 = malloc(8)\n"
                            "    1: b1 = malloc(8)  <- next or in progress\n"
                            "  last ops of thread 3:\n    3: b3 = malloc(8)\n    4: b4 = malloc(8)\n"
                            "    5: b5 = malloc(8)\n    6: b6 = malloc(8)\n    7: b7 = malloc(8)\n"
                            "    8: b8 = malloc(8)\n    9: b9 = malloc(8)\n"
                            "    10: b10 = malloc(8)  <- next or in progress\n";
    EXPECT_EQ(report(false, 4), "main thread: tid N\n" + ops);
    {
        std::atomic<bool> stop{false};
        const Sched sched(1, stop); // which does not schedule the main thread
        EXPECT_EQ(report(false, 4), "main thread: tid N\n" + ops);
    }
    const std::string with_stack = report(true, 4);
    EXPECT_TRUE(std::regex_search(
        with_stack, std::regex("^main thread: tid N\n  stack:\n(    [^ ]*[+]?0x[0-9a-f]+[^\n]*\n){2,}  last")))
        << with_stack;
    EXPECT_EQ(with_stack.find("on_report"), std::string::npos) << "the handler is left out";
}

TEST_F(SeatReports, OfSixtyFourSeatsAtMost)
{
    seat(0, false);
    const auto count = [](const std::string &text, const std::string &line) {
        std::size_t found = 0;
        for (std::size_t at = 0; (at = text.find(line, at)) != std::string::npos; ++at) ++found;
        return found;
    };
    EXPECT_EQ(count(report(false, 64), "last ops"), 64u);
    EXPECT_EQ(report(false, 64).find("more threads"), std::string::npos);
    EXPECT_EQ(count(report(false, 65), "last ops"), 64u);
    EXPECT_EQ(report(false, 66).find("and 2 more threads\n"), 0u);
}

TEST_F(SeatReports, OfEachThreadWhereItStands)
{
    std::latch ready(3), over(1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 3; ++i) {
        Seat &mine = seat(i, true);
        threads.emplace_back([&, i] {
            if (i == 1) inside_subject = true;
            mine.thread.tid = gettid();
            ready.count_down();
            // The second op of the third seat waits for one that does not come.
            if (i == 2) mine.interp.apply(op_make(OpKind::Free, 5, 0, 0, 7));
            else over.wait();
            inside_subject = false;
        });
    }
    ready.wait();
    while (made[2]->interp.waits_for() == 0) std::this_thread::yield();
    EXPECT_EQ(report(false, 3),
              "thread 0: tid N\n  last ops of thread 0:\n    0: b0 = malloc(8)  <- next or in progress\n"
              "thread 1: tid N, inside the subject, in malloc\n  last ops of thread 1:\n    0: b0 = malloc(8)\n"
              "    1: b1 = malloc(8)  <- next or in progress\n"
              "thread 2: tid N, waits for the op before it on slot 5\n  last ops of thread 2:\n    0: b0 = malloc(8)\n"
              "    1: b1 = malloc(8)\n    2: b2 = malloc(8)  <- next or in progress\n");
    stop = true;
    over.count_down();
    for (std::thread &thread : threads) thread.join();
    made[1]->thread.tid = 0;
    for (const int wait_ms : {0, 10, 100, 1000}) { // until the system has ended them
        usleep(static_cast<useconds_t>(wait_ms) * 1000);
        if (report(false, 1).find("has ended") != std::string::npos) break;
    }
    EXPECT_EQ(report(false, 3), "thread 0: has ended\nthread 2: has ended\n");
}

// The thread may be about to read errno. Nothing can be written here, so that each call of the report sets it.
TEST_F(SeatReports, LeaveErrnoAsItWas)
{
    Seat &mine = seat(1, true);
    std::atomic<bool> over{false};
    std::latch ready(1);
    int after = 0;
    std::thread thread([&] {
        mine.thread.tid = gettid();
        ready.count_down();
        errno = EIO;
        while (!over.load(std::memory_order_relaxed)) {}
        after = errno;
    });
    ready.wait();
    Mapped<Seat *> all(1);
    all[0] = &mine;
    seat_report_prepare();
    seat_report_all(-1, all, false, 5000);
    over = true;
    thread.join();
    EXPECT_EQ(after, EIO);
}

// A thread that takes no signals is named with its ops; one that takes them later answers, and continues its call.
TEST_F(SeatReports, OfAThreadThatDoesNotAnswerInTime)
{
    Seat &deaf = seat(0, true), &late = seat(1, true);
    std::latch ready(2), over(1);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    std::thread first([&] {
        deaf.thread.tid = gettid();
        ready.count_down();
        over.wait();
    });
    ssize_t length = 0;
    std::thread second([&] {
        late.thread.tid = gettid();
        ready.count_down();
        usleep(50'000);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        char byte = 0;
        length = ::read(ends[0], &byte, 1);
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ready.wait();
    EXPECT_EQ(report(false, 1, 5), "tid N: does not answer the signal that asks for its stack\n"
                                   "  last ops of thread 0:\n    0: b0 = malloc(8)  <- next or in progress\n");
    deaf.thread.tid = 0;
    for (const useconds_t wait_us : {0u, 100'000u}) { // before it answers, and while it reads
        usleep(wait_us);
        EXPECT_EQ(report(false, 2), "thread 1: tid N\n  last ops of thread 1:\n    0: b0 = malloc(8)\n"
                                    "    1: b1 = malloc(8)  <- next or in progress\n");
    }
    EXPECT_EQ(write(ends[1], "", 1), 1);
    over.count_down();
    first.join();
    second.join();
    EXPECT_EQ(length, 1);
    for (const int end : ends) close(end);
}

TEST_F(SeatReports, UnderTheSeededSchedulerOfBatonAndPoint)
{
    Sched sched(1, stop);
    struct Body {
        Sched *sched;
        Seat *seat;
        std::function<void()> *look;
    } bodies[2];
    std::string text;
    std::function<void()> look = [&] { text += report(false, 2); };
    for (Body &each : bodies) {
        Seat &mine = seat(0, false);
        each = {&sched, &mine, &look};
        mine.thread.ticket = sched.admit();
        pthread_t thread{};
        const auto body = [](void *argument) -> void * {
            const Body &my = *static_cast<Body *>(argument);
            my.seat->thread.tid = gettid();
            my.sched->enter(my.seat->thread.ticket);
            my.sched->give_way("test");
            if (my.seat->index == 1) (*my.look)();
            my.sched->leave();
            return nullptr;
        };
        ASSERT_EQ(pthread_create(&thread, nullptr, body, &each), 0);
        sched.admitted(mine.thread.ticket, thread);
        while (mine.thread.tid == 0) std::this_thread::yield();
    }
    sched.run([](pthread_t thread) { pthread_join(thread, nullptr); });
    EXPECT_EQ(text, "thread 0: tid N, at sync point test\n  last ops of thread 0:\n"
                    "thread 1: tid N, holds the baton, at sync point test\n  last ops of thread 1:\n");
}

}  // namespace
}  // namespace stress
