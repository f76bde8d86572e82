// trace_test.cc: the table of traces, from empty to one block more than a set holds. The traces themselves are tested by
// programs (stress/misuse): they leave out the library's own module, which here is the whole program.
#include "base/test_support.h"

#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/resource.h>

extern "C" {
#include "cache/thread.h"
#include "debug/explain_next.h"
#include "debug/trace.h"
#include "os/maps.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "report/text.h"
}

namespace {

// The table reads no block, so any address will do.
const void *block_at(uintptr_t index)
{
    return reinterpret_cast<const void *>(index * 16);
}

size_t size_of(const void *block)
{
    failfast_event allocated, freed;
    return trace_find(block, &allocated, &freed);
}

// Blocks that share a set with the first one: each drove it out of the table. Found by trying one after the other.
std::vector<const void *> set_of(const void *first, size_t count)
{
    std::vector<const void *> found;
    trace_allocated(first, 1);
    for (uintptr_t index = 1000; found.size() < count && index < 1000 + 64 * TRACE_RECORDS; index++) {
        trace_allocated(block_at(index), 1);
        if (size_of(first) != 0) continue;
        found.push_back(block_at(index));
        trace_allocated(first, 1);
    }
    return found;
}

pid_t thread_that_allocates()
{
    failfast_event allocated, freed;
    trace_allocated(block_at(1), 100);
    EXPECT_EQ(trace_find(block_at(1), &allocated, &freed), 100u);
    return (pid_t)allocated.thread;
}

// Calls as a caller whose frame pointer has this value.
[[gnu::noinline]] void with_frame(uintptr_t frame_pointer, void (*call)(failfast_event *),
                                  failfast_event *event = nullptr)
{
    volatile uintptr_t *frame = static_cast<volatile uintptr_t *>(__builtin_frame_address(0)) + HAK_FRAME_RECORD;
    const uintptr_t kept = frame[0];
    frame[0] = frame_pointer;
    call(event);
    frame[0] = kept;
}

// The frame pointer of a function whose caller's is kept in this word.
uintptr_t frame_of(const uintptr_t *record)
{
    return (uintptr_t)(record - HAK_FRAME_RECORD);
}

void allocate(failfast_event *)
{
    trace_allocated(block_at(1), 100);
}

void release(failfast_event *)
{
    trace_freed(block_at(1));
}

class Trace : public testing::Test {
  protected:
    void SetUp() override { failfast_level_read = LEVEL_TRACES; }
    void TearDown() override { failfast_level_read = before; }

  private:
    int before = failfast_level_read;
};

} // namespace

TEST_F(Trace, HereIsThisThread)
{
    failfast_event event;
    memset(&event, 0xff, sizeof event);
    trace_here(&event);
    EXPECT_EQ((pid_t)event.thread, gettid());
    EXPECT_LE(event.count, (uint32_t)FAILFAST_FRAMES);
}

TEST_F(Trace, AThreadsNameIsPrintableToItsEnd)
{
    char bytes[64] = {};
    struct text text = {bytes, sizeof bytes - 1, 0};
    test::in_thread([&] {
        prctl(PR_SET_NAME, "a ~\x1f\x7f");
        trace_add_thread(&text, gettid());
        EXPECT_EQ(std::string(bytes), std::to_string(gettid()) + " (a ~?\?)");
        for (const auto &[name, shown] : {std::pair("x", " (x)"), std::pair("", "")}) {
            prctl(PR_SET_NAME, name);
            text.length = 0;
            memset(bytes, 0, sizeof bytes);
            trace_add_thread(&text, gettid());
            EXPECT_EQ(std::string(bytes), std::to_string(gettid()) + shown);
        }
    });
    for (size_t files : {(size_t)0, (size_t)1 << 10}) { // where no file can be opened; no such thread
        EXPECT_TRUE(test::in_child([files] {
            const rlimit limit = {files, files};
            ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
            char number[64] = {};
            struct text only = {number, sizeof number - 1, 0};
            errno = 77;
            trace_add_thread(&only, UINT32_MAX);
            EXPECT_EQ(errno, 77);
            EXPECT_EQ(std::string(number), "4294967295");
        }));
    }
}

// A line for each frame: the file and the place of the call in it, or the address of the call.
TEST_F(Trace, EachPlaceIsALine)
{
    const uintptr_t libc = (uintptr_t)dlsym(RTLD_DEFAULT, "getpid") + 16, nowhere = 0x10000;
    Dl_info file;
    ASSERT_NE(dladdr(reinterpret_cast<void *>(libc), &file), 0);
    failfast_event event = {};
    for (uintptr_t each : {libc, nowhere, libc + 16}) event.frames[event.count++] = each;
    char bytes[3 * (64 + MAPS_NAME_BYTES)];
    text text = {bytes, sizeof bytes, 0};
    trace_add_places(&text, &event);
    const auto in_libc = [&](uintptr_t address) {
        char offset[32];
        snprintf(offset, sizeof offset, "+0x%zx\n", address - 1 - (uintptr_t)file.dli_fbase);
        return "hakmem:     " + std::string(file.dli_fname) + offset;
    };
    EXPECT_EQ(std::string(bytes, text.length), in_libc(libc) + "hakmem:     0x000000000000ffff\n" + in_libc(libc + 16));
}

TEST_F(Trace, EmptyThenOne)
{
    EXPECT_EQ(size_of(block_at(1)), 0u);
    trace_freed(block_at(1));
    EXPECT_EQ(size_of(block_at(1)), 0u) << "the free of a block that is not in the table";
    trace_allocated(block_at(1), 100);
    trace_freed(block_at(1));
    EXPECT_EQ(size_of(block_at(1)), 100u);
    trace_allocated(block_at(1), 200);
    EXPECT_EQ(size_of(block_at(1)), 200u);
    failfast_level_read = LEVEL_LAYOUT;
    trace_allocated(block_at(2), 100);
    EXPECT_EQ(size_of(block_at(1)), 0u) << "nothing is remembered below level 3";
    failfast_level_read = LEVEL_TRACES;
    EXPECT_EQ(size_of(block_at(2)), 0u);
}

TEST_F(Trace, AChildHasItsOwnThread)
{
    ASSERT_TRUE(thread_process_start()); // sets the handlers of fork
    EXPECT_EQ(thread_that_allocates(), gettid());
    pid_t parent = gettid();
    EXPECT_TRUE(test::in_child([parent] {
        EXPECT_NE(gettid(), parent);
        EXPECT_EQ(thread_that_allocates(), gettid());
    }));
}

// A process that can open no file at its start does not know its command line.
TEST_F(Trace, WithoutTheCommandLineTheVariableIsNamed)
{
    EXPECT_TRUE(test::in_child([] {
        const rlimit none = {0, 0};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        errno = 77;
        explain_next_start();
        EXPECT_EQ(errno, 77);
        static char buffer[1024];
        text text = {buffer, sizeof buffer, 0};
        explain_next(&text, FAILFAST_double_free, nullptr, 0);
        EXPECT_EQ(std::string(buffer, text.length),
                  "hakmem:   next: run again with HAKMEM_FAILFAST_LEVEL=3 in the environment\n");
    }));
}

// Traces say who used a block, but not who broke the heap's books: then a debugger says more.
TEST_F(Trace, TheNextStepIsForTheKind)
{
    failfast_event event = {};
    event.frames[event.count++] = (uintptr_t)&set_of + 16;
    const failfast_event *const events[] = {&event};
    for (failfast_kind kind : {FAILFAST_double_free, FAILFAST_law, FAILFAST_heap_not_held}) {
        static char buffer[8192];
        text text = {buffer, sizeof buffer, 0};
        explain_next(&text, kind, events, 1);
        const std::string next(buffer, text.length);
        EXPECT_EQ(next.find("addr2line") != next.npos, kind == FAILFAST_double_free) << next;
        EXPECT_EQ(next.find("gdb") != next.npos || next.find("debugger") != next.npos, kind != FAILFAST_double_free)
            << next;
    }
}

// A set holds four blocks. The fifth takes the place of the one whose last malloc or free is the longest ago.
TEST_F(Trace, TheLeastRecentlyUsedBlockLeavesAFullSet)
{
    std::vector<const void *> same = {block_at(1)};
    for (const void *each : set_of(same[0], 5)) same.push_back(each);
    ASSERT_EQ(same.size(), 6u);
    auto expect_kept = [&same](std::vector<size_t> which) {
        for (size_t i = 0; i < same.size(); i++) {
            bool kept = std::find(which.begin(), which.end(), i) != which.end();
            EXPECT_EQ(size_of(same[i]), kept ? 100 + i : 0) << "block " << i;
        }
    };
    for (size_t i = 0; i < 4; i++) trace_allocated(same[i], 100 + i);
    expect_kept({0, 1, 2, 3});
    trace_freed(same[0]);
    trace_allocated(same[4], 104);
    expect_kept({0, 2, 3, 4});
    for (size_t i : {3, 0, 4}) trace_freed(same[i]);
    trace_allocated(same[5], 105);
    expect_kept({0, 3, 4, 5});
}

// Every address of every event, up to four events, is in the command, and nothing of a fifth.
// (EVENTS_MAX)
TEST_F(Trace, TheCommandNamesEachCall)
{
    failfast_event event = {};
    for (uint32_t i = 0; i < TRACE_DEPTH; i++) event.frames[event.count++] = (uintptr_t)&set_of + 16 + i;
    const failfast_event *const events[] = {&event, &event, &event, &event, &event};
    for (uint32_t count = 0; count <= 5; count++) {
        static char buffer[8192];
        text text = {buffer, sizeof buffer, 0};
        EXPECT_EQ(trace_add_command(&text, events, count), count > 0);
        const std::string all(buffer, text.length);
        size_t addresses = 0;
        for (size_t at = 0; (at = all.find(" 0x", at)) != std::string::npos; at++) addresses++;
        EXPECT_EQ(addresses, std::min(count, 4u) * TRACE_DEPTH) << all;
    }
}

// The command is for one file: the one that most of the addresses lie in, wherever in the list they are, and one of the C
// or C++ runtime only if all of them do.
TEST_F(Trace, TheCommandIsForTheFileOfMostAddresses)
{
    const uintptr_t libc = (uintptr_t)dlsym(RTLD_DEFAULT, "getpid") + 16, own = (uintptr_t)&set_of + 16;
    Dl_info file;
    ASSERT_NE(dladdr(reinterpret_cast<void *>(libc), &file), 0);
    for (uint32_t owns = 0; owns <= 6; owns++) {
        failfast_event event = {};
        for (uint32_t i = 0; i < 6; i++) event.frames[event.count++] = (i * 5 + 3) % 6 < owns ? own : libc;
        const failfast_event *const events[] = {&event};
        static char buffer[4096];
        text text = {buffer, sizeof buffer, 0};
        EXPECT_TRUE(trace_add_command(&text, events, 1));
        const std::string all(buffer, text.length);
        size_t addresses = 0;
        for (size_t at = 0; (at = all.find(" 0x", at)) != std::string::npos; at++) addresses++;
        EXPECT_EQ(addresses, owns > 0 ? owns : 6) << all;
        EXPECT_EQ(all.find(file.dli_fname) == std::string::npos, owns > 0) << all;
    }
}

// A record is full where the program's stack is deeper than it: what lies behind it in memory is not a frame.
TEST_F(Trace, AStackDeeperThanARecord)
{
    if (ASAN) GTEST_SKIP() << "program and library are one module: our own frames are in a trace too";
    uintptr_t stack[2 * (TRACE_DEPTH + 1)]; // of each frame: the caller's, and where it returns to
    for (size_t i = 0; i <= TRACE_DEPTH; i++) {
        stack[2 * i] = frame_of(&stack[2 * (i + 1)]);
        stack[2 * i + 1] = 0x10000 + i; // in no module
    }
    stack[2 * TRACE_DEPTH] = 0;
    for (size_t depth : {TRACE_DEPTH - 1, TRACE_DEPTH + 0, TRACE_DEPTH + 1}) {
        const size_t skipped = TRACE_DEPTH + 1 - depth;
        with_frame(frame_of(&stack[2 * skipped]), allocate);
        with_frame(frame_of(&stack[2 * skipped]), release);
        failfast_event allocated, freed;
        ASSERT_EQ(trace_find(block_at(1), &allocated, &freed), 100u);
        for (const failfast_event &event : {allocated, freed}) {
            EXPECT_EQ((pid_t)event.thread, gettid()) << depth;
            ASSERT_EQ(event.count, (uint32_t)std::min<size_t>(depth, TRACE_DEPTH)) << depth;
            for (size_t i = 0; i < event.count; i++) EXPECT_EQ(event.frames[i], 0x10000 + skipped + i) << depth;
        }
    }
}

// Beyond the first, the frames of a report end before one that is in no file.
TEST_F(Trace, FramesAreBelievedAsFarAsTheyAreInFiles)
{
    if (ASAN) GTEST_SKIP() << "program and library are one module: our own frames are in a trace too";
    const uintptr_t in_file = (uintptr_t)dlsym(RTLD_DEFAULT, "getpid") + 16, nowhere = 0x10000;
    const std::pair<std::vector<uintptr_t>, uint32_t> cases[] = {{{in_file}, 1},
                                                                 {{nowhere}, 1},
                                                                 {{nowhere, in_file}, 2},
                                                                 {{in_file, nowhere, in_file}, 1},
                                                                 {{in_file, in_file, nowhere}, 2},
                                                                 {{in_file, in_file, in_file}, 3}};
    for (const auto &[addresses, believed] : cases) {
        uintptr_t stack[6];
        for (size_t i = 0; i < addresses.size(); i++) {
            stack[2 * i] = i + 1 < addresses.size() ? frame_of(&stack[2 * (i + 1)]) : 0;
            stack[2 * i + 1] = addresses[i];
        }
        failfast_event event;
        with_frame(frame_of(stack), trace_here, &event);
        ASSERT_EQ(event.count, believed);
        for (uint32_t i = 0; i < believed; i++) EXPECT_EQ(event.frames[i], addresses[i]);
    }
}

// The register may hold anything: also what reaches beyond the last address, or beyond the stack.
TEST_F(Trace, AProgramWithoutFramePointers)
{
    const auto each_value = [] {
        const auto end = (uintptr_t)__builtin_thread_pointer();
        for (uintptr_t value : {(uintptr_t)0, (uintptr_t)1, (uintptr_t)8, (uintptr_t)1 << 63, end, UINTPTR_MAX})
            with_frame(value, allocate);
        for (uintptr_t under = 8; under <= 32; under += 8) {
            with_frame(0 - under, allocate);
            with_frame(end - under, allocate);
        }
    };
    each_value();
    std::thread(each_value).join();
    EXPECT_EQ(size_of(block_at(1)), 100u);
}
