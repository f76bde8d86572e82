// override_test.cc: an ordinary program, linked with libc alone. It runs on libc's own malloc, which checks the tests,
// and then with each library preloaded: every name must resolve to the library and work. HAKMEM_TEST_LIBRARY names the
// library that is expected.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "hakmem/hakmem.h"
#include "override_test_support.h"

// Names that glibc may lack, or that its headers hide.
extern "C" {
[[gnu::weak]] void cfree(void *block);
[[gnu::weak]] void free_sized(void *block, size_t size_bytes);
[[gnu::weak]] void free_aligned_sized(void *block, size_t align_bytes, size_t size_bytes);
}

TEST(Override, C)
{
    for (size_t size : {0u, 1u, 100u, 5000u, 100000u, 10000000u}) {
        void *block = opaque(malloc(opaque(size)));
        expect_block(block, size);
        block = opaque(realloc(block, size + 100));
        expect_block(block, size + 100);
        block = opaque(reallocarray(block, size + 1, 2));
        expect_block(block, 2 * size + 2);
        free(block);
        auto *zero = static_cast<char *>(opaque(calloc(opaque(size) + 1, 1)));
        for (size_t i = 0; i <= size; i += 100) ASSERT_EQ(zero[i], 0);
        free(zero);
    }
    free(opaque((void *)nullptr));
    EXPECT_EQ(malloc_usable_size(nullptr), 0u);
}

TEST(Override, Aligned)
{
    for (size_t align = sizeof(void *); align <= 8u << 20; align *= 4) {
        void *block = nullptr;
        ASSERT_EQ(posix_memalign(&block, align, 100), 0);
        expect_block(block, 100, align);
        free(block);
        block = opaque(aligned_alloc(align, align));
        expect_block(block, align, align);
        free(block);
        block = opaque(memalign(align, 1000));
        expect_block(block, 1000, align);
        free(block);
    }
    size_t page = (size_t)getpagesize();
    void *block = opaque(valloc(10));
    expect_block(block, 10, page);
    free(block);
    for (size_t size : {expected_library() == nullptr ? 1 : (size_t)0, (size_t)10, page}) { // libc returns NULL for 0
        block = opaque(pvalloc(size));
        expect_block(block, page, page);
        free(block);
    }
    block = &page;
    EXPECT_EQ(posix_memalign(&block, opaque((size_t)24), 10), EINVAL);
    EXPECT_EQ(block, &page);
}

TEST(Override, FailuresSetErrno)
{
    errno = 0;
    EXPECT_EQ(opaque(malloc(opaque(SIZE_MAX - 100))), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(opaque(calloc(opaque(SIZE_MAX / 2), 3)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    void *volatile block = malloc(10); // volatile: a compiler may assume that it is freed after a realloc
    errno = 0;
    EXPECT_EQ(opaque(realloc(block, opaque(SIZE_MAX - 100))), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(opaque(reallocarray(block, opaque((size_t)1 << 32), (size_t)1 << 32)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 4711;
    free(block);
    EXPECT_EQ(errno, 4711);
}

TEST(Override, NamesThatLibcMayLack)
{
    if (&cfree == nullptr || &free_sized == nullptr || &free_aligned_sized == nullptr) {
        ASSERT_EQ(expected_library(), nullptr);
        GTEST_SKIP() << "this libc has no cfree, free_sized or free_aligned_sized";
    }
    cfree(opaque(malloc(100)));
    free_sized(opaque(malloc(100)), 100);
    free_aligned_sized(opaque(aligned_alloc(64, 128)), 64, 128);
    cfree(nullptr);
    free_sized(nullptr, 1);
    free_aligned_sized(nullptr, 64, 1);
}

TEST(Override, GlibcsControls)
{
    std::vector<void *> blocks;
    for (size_t size : {100u, 100000u, 10000000u}) blocks.push_back(opaque(malloc(size)));
    struct mallinfo2 info = mallinfo2();
    EXPECT_GE(info.uordblks + info.hblkhd, 100u + 100000u + 10000000u);
    EXPECT_GE(info.arena + info.hblkhd, 100u + 100000u + 10000000u);
    EXPECT_LT(info.arena + info.hblkhd, (size_t)1 << 40) << "no figure wrapped below 0";
    EXPECT_LT(info.fordblks, (size_t)1 << 40);
    if (expected_library() != nullptr) EXPECT_EQ(info.fordblks, info.arena - info.uordblks) << "the rest of it is free";
    for (bool is_live : {true, false}) { // each figure again, as an int
        if (!is_live)
            for (void *block : blocks) free(block);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        const struct mallinfo2 wide = mallinfo2();
        const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
        if (expected_library() == nullptr) continue;
        EXPECT_EQ(narrow.arena, (int)wide.arena);
        EXPECT_EQ(narrow.hblks, (int)wide.hblks);
        EXPECT_EQ(narrow.hblkhd, (int)wide.hblkhd);
        EXPECT_EQ(narrow.uordblks, (int)wide.uordblks);
        EXPECT_EQ(narrow.fordblks, (int)wide.fordblks);
        EXPECT_EQ(narrow.keepcost, (int)wide.keepcost);
        if (!is_live) EXPECT_GT(wide.keepcost, 0u);
    }
    if (expected_library() != nullptr) { // what no int can say is said as the largest
        pid_t child = fork();
        if (child == 0) {
            const bool has_vast = opaque(malloc((size_t)3 << 30)) != nullptr;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
            _exit(has_vast && mallinfo().hblkhd == INT_MAX ? 0 : 1);
#pragma GCC diagnostic pop
        }
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    int trimmed = malloc_trim(0), again = malloc_trim(0);
    EXPECT_TRUE(trimmed == 0 || trimmed == 1);
    if (expected_library() != nullptr) {
        EXPECT_EQ(trimmed, 1) << "three blocks were just freed";
        EXPECT_EQ(again, 0) << "nothing was left to give back";
    }
    EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
    EXPECT_EQ(mallopt(M_ARENA_MAX, 2), 1);
    EXPECT_EQ(mallopt(M_MXFAST, 64), 1);

    testing::internal::CaptureStderr();
    malloc_stats();
    EXPECT_GT(testing::internal::GetCapturedStderr().size(), 50u);
}

namespace {

// Whether text is one XML element with properly nested tags.
bool is_well_formed(const std::string &text)
{
    std::vector<std::string> open;
    bool seen_root = false;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] != '<') {
            if (open.empty() && !isspace((unsigned char)text[i])) return false;
            if (text[i] == '>' || text[i] == '&') return false;
            continue;
        }
        size_t end = i;
        bool quoted = false;
        while (++end < text.size() && (quoted || text[end] != '>'))
            if (text[end] == '"') quoted = !quoted;
            else if (text[end] == '<') return false;
        if (end >= text.size() || quoted) return false;
        std::string tag = text.substr(i + 1, end - i - 1);
        std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
        if (tag[0] == '/') {
            if (open.empty() || open.back() != tag.substr(1)) return false;
            open.pop_back();
        } else {
            if (open.empty() && seen_root) return false;
            seen_root = true;
            if (tag.back() != '/') open.push_back(name);
        }
        i = end;
    }
    return seen_root && open.empty();
}

} // namespace

TEST(Override, MallocInfoIsWellFormed)
{
    EXPECT_TRUE(is_well_formed("<a x=\"1\">\n<b/>\n</a>"));
    EXPECT_FALSE(is_well_formed("<a><b></a>"));
    EXPECT_FALSE(is_well_formed("<a x=\"1></a>"));
    char *text = nullptr;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    ASSERT_EQ(malloc_info(0, stream), 0);
    fclose(stream);
    EXPECT_TRUE(is_well_formed(std::string(text, length))) << text;
    EXPECT_EQ(strncmp(text, "<malloc version=", 16), 0);
    free(text);
    EXPECT_NE(malloc_info(1, stdout), 0) << "no options are known";
}

// Programs read these of glibc's elements: the last of each is that of the whole.
TEST(Override, MallocInfoHasTheTotals)
{
    const auto figure = [](const char *element, const char *attribute) -> size_t {
        char *text = nullptr;
        size_t length = 0;
        FILE *stream = open_memstream(&text, &length);
        EXPECT_EQ(malloc_info(0, stream), 0);
        fclose(stream);
        const std::string info(text, length);
        free(text);
        const size_t at = info.rfind(element);
        EXPECT_NE(at, std::string::npos) << element << " is not in:\n" << info;
        if (at == std::string::npos) return 0;
        return strtoull(&info[info.find(attribute, at) + strlen(attribute)], nullptr, 10);
    };
    constexpr size_t COUNT = 3, BYTES = 48u << 20;
    const size_t count = figure("<total type=\"mmap\"", "count=\""), bytes = figure("<total type=\"mmap\"", "size=\"");
    void *volatile blocks[COUNT];
    for (auto &block : blocks) block = malloc(BYTES);
    EXPECT_EQ(figure("<total type=\"mmap\"", "count=\""), count + COUNT);
    EXPECT_GE(figure("<total type=\"mmap\"", "size=\""), bytes + COUNT * BYTES);
    for (auto &block : blocks) free(block);
    EXPECT_EQ(figure("<total type=\"fast\"", "size=\"") % 16, 0u);
    EXPECT_GE(figure("<system type=\"current\"", "size=\""), figure("<total type=\"rest\"", "size=\""));
}

// --- libc's own use ----------------------------------------------------------------------------------

TEST(OverrideThreads, LibcFreesAfterTheThreadsEnd)
{
    // Detached threads that allocate nothing themselves, with stacks too large for libc to keep. The blocks that libc
    // frees at their very end must not give each thread a heap.
    auto get = reinterpret_cast<void (*)(hak_stats *)>(symbol("hak_stats_get"));
    hak_stats before = {}, after = {};
    if (get != nullptr) get(&before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 48u << 20);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    constexpr int AT_ONCE = 8;
    static std::atomic<int> waiting;
    for (int round = 0; round < 60; round++) {
        waiting = AT_ONCE;
        for (int i = 0; i < AT_ONCE; i++) {
            pthread_t thread;
            ASSERT_EQ(pthread_create(
                          &thread, &attributes,
                          [](void *) -> void * {
                              for (waiting--; waiting > 0;) sched_yield(); // so that all end together
                              return nullptr;
                          },
                          nullptr),
                      0);
        }
        while (waiting > 0) sched_yield();
        usleep(1000);
    }
    pthread_attr_destroy(&attributes);
    usleep(20000);
    if (get == nullptr) GTEST_SKIP() << "libc tells no count of heaps";
    get(&after);
    printf("heaps: %zu, then %zu, of them orphans %zu\n", before.heap_count, after.heap_count, after.orphan_count);
    EXPECT_LE(after.heap_count, before.heap_count + 2 * AT_ONCE);
    EXPECT_GE(after.orphan_count + 2, after.heap_count) << "heaps were lost with their threads";
}

TEST(OverrideThreads, ForkWhileStreamsAreBusy)
{
    // glibc BZ#19431: fork waits for the lock of the list of streams, whose holder waits for a stream, whose holder
    // waits in realloc. If malloc held its locks across fork, this would be a deadlock.
    static std::atomic<bool> done;
    done = false;
    FILE *file = tmpfile();
    ASSERT_NE(file, nullptr);
    std::string line(6u << 20, 'x');
    line.back() = '\n';
    ASSERT_EQ(fwrite(line.data(), 1, line.size(), file), line.size());
    fflush(file);
    std::thread flusher([] {
        while (!done) fflush(nullptr);
    });
    std::thread getter([file] {
        while (!done) {
            char *text = nullptr;
            size_t size = 0;
            rewind(file);
            EXPECT_EQ(getline(&text, &size, file), 6 << 20);
            free(text);
            usleep(100); // without this the thread takes the lock again before another can
        }
    });
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        int status = 1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    done = true;
    flusher.join();
    getter.join();
    fclose(file);
}

TEST(OverrideThreads, ThreadLocalDestructorsAndStreams)
{
    for (int i = 0; i < 100; i++)
        std::thread([] {
            thread_local std::map<std::string, std::string> map;
            for (int n = 0; n < 50; n++) map[std::to_string(n)] = std::string((size_t)n * 10, 'x');
            EXPECT_NE(opaque(strerror(123456)), nullptr); // libc allocates the text, and frees it at the thread's end
        }).join();
}

// malloc_trim takes what other threads have parked, too, and says whether memory went back; mallinfo2 counts it as free.
TEST(Override, TrimReachesThreadsThatSleep)
{
    if (expected_library() == nullptr) GTEST_SKIP() << "of libhakmem's promises";
    for (size_t size : {64u, 500u, 1000u, 3000u}) {
        for (int threads : {1, 8}) {
            std::barrier ready(threads + 1), over(threads + 1);
            std::vector<std::thread> sleepers;
            malloc_trim(0);
            const size_t before = mallinfo2().uordblks;
            for (int i = 0; i < threads; i++)
                sleepers.emplace_back([&] {
                    std::vector<void *> blocks((2u << 20) / size);
                    for (void *&block : blocks) block = memset(malloc(size), 1, size);
                    for (void *block : blocks) free(block);
                    blocks = std::vector<void *>();
                    ready.arrive_and_wait();
                    over.arrive_and_wait();
                });
            ready.arrive_and_wait();
            const size_t cached = mallinfo2().uordblks - before;
            // The debug-validation build keeps the vectors in its quarantine, if they are large.
            const bool keeps_large = strstr(expected_library(), "validate") != nullptr;
            const size_t kept = keeps_large ? (2u << 20) / size * sizeof(void *) + 131072 : 0;
            EXPECT_LT(cached, (size_t)threads * ((160u << 10) + kept)) << size << ": a bin, and what a thread is";
            EXPECT_EQ(malloc_trim(0), 1) << size << " bytes, " << threads << " threads";
            EXPECT_EQ(malloc_trim(0), 0) << "all had gone back: " << size << " bytes, " << threads << " threads";
            over.arrive_and_wait();
            for (std::thread &thread : sleepers) thread.join();
        }
    }
}
