// stats_test.cc: the figures follow what is allocated and freed, and what is written follows them. More than 400 lines: the
// figures and their three formats stand side by side.
#include "heap/heap_test_support.h"

#include <fcntl.h>
#include <sys/mman.h>

extern "C" {
#include "heap/stats_write.h"
#include "profile/profile.h"
#include "superslab/pool.h"
}

namespace {

class Stats : public test::HeapTest {
  protected:
    static hak_stats get()
    {
        hak_stats stats;
        hak_stats_get(&stats);
        return stats;
    }
};

using test::MIB;

} // namespace

TEST_F(Stats, AtRest)
{
    hak_stats stats = get();
    EXPECT_EQ(stats.slab_bytes, 0u);
    EXPECT_EQ(stats.small_bytes, 0u);
    EXPECT_EQ(stats.run_bytes, 0u);
    EXPECT_EQ(stats.huge_bytes, 0u);
    EXPECT_EQ(stats.huge_cached_bytes, 0u);
    EXPECT_EQ(stats.dirty_bytes, 0u);
    EXPECT_EQ(stats.reserved_bytes % SUPERSLAB_BYTES, 0u);
}

TEST_F(Stats, SmallBlocks)
{
    std::vector<void *> blocks;
    for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(1000));
    hak_stats stats = get();
    EXPECT_GE(stats.small_bytes, 100u * 1008);
    EXPECT_LE(stats.small_bytes, 100u * 1008 + CARVE_BYTES) << "and what was carved beyond";
    EXPECT_EQ(stats.slab_bytes, 2u * PAGE_BYTES) << "64 KiB hold 65 of them";
    EXPECT_EQ(stats.run_bytes, 0u);
    EXPECT_GE(stats.reserved_bytes, (size_t)SUPERSLAB_BYTES);
    for (size_t size : {5000u, 20000u}) blocks.push_back(hak_malloc(size));
    EXPECT_EQ(get().slab_bytes, (2u + 4 + 8) * PAGE_BYTES);
    for (void *block : blocks) hak_free(block);
    EXPECT_GE(get().small_bytes, 1u) << "in the thread's cache";
    hak_purge();
    EXPECT_EQ(get().small_bytes, 0u);
    EXPECT_EQ(get().slab_bytes, 0u);
}

TEST_F(Stats, Runs)
{
    void *first = hak_malloc(3 * PAGE_BYTES), *second = hak_malloc(5 * PAGE_BYTES - 1);
    EXPECT_EQ(get().run_bytes, 8u * PAGE_BYTES);
    hak_free(first);
    EXPECT_EQ(get().run_bytes, 5u * PAGE_BYTES);
    EXPECT_EQ(get().dirty_bytes, 3u * PAGE_BYTES);
    second = hak_realloc(second, PAGE_BYTES);
    EXPECT_EQ(get().run_bytes, (size_t)PAGE_BYTES);
    hak_free(second);
    EXPECT_EQ(get().run_bytes, 0u);
    EXPECT_EQ(hak_purge(), 8u * PAGE_BYTES);
    EXPECT_EQ(get().dirty_bytes, 0u);
}

TEST_F(Stats, HugeBlocks)
{
    size_t reserved = get().reserved_bytes;
    void *block = hak_malloc(5 * MIB);
    EXPECT_EQ(get().huge_bytes, 5 * MIB);
    EXPECT_EQ(get().reserved_bytes, reserved + 5 * MIB);
    block = hak_realloc(block, 9 * MIB);
    EXPECT_EQ(get().huge_bytes, 9 * MIB);
    hak_free(block);
    EXPECT_EQ(get().huge_bytes, 0u);
    EXPECT_EQ(get().huge_cached_bytes, 9 * MIB);
    EXPECT_EQ(get().reserved_bytes, reserved + 9 * MIB);
    EXPECT_EQ(hak_purge(), 9 * MIB);
    EXPECT_EQ(get().huge_cached_bytes, 0u);
    EXPECT_EQ(get().reserved_bytes, reserved);
}

TEST_F(Stats, Heaps)
{
    hak_free(hak_malloc(1));
    size_t orphans = get().orphan_count, heaps = get().heap_count;
    EXPECT_GE(heaps, 1u);
    test::in_thread([&] {
        hak_free(hak_malloc(1));
        EXPECT_EQ(get().heap_count, std::max(heaps, (size_t)2));
    });
    EXPECT_EQ(get().heap_count, std::max(heaps, (size_t)2));
    EXPECT_EQ(get().orphan_count, std::max(orphans, (size_t)1));
}

TEST_F(Stats, WhileOthersWork)
{
    static std::atomic<bool> done;
    done = false;
    std::thread busy([] {
        test::Rng rng;
        while (!done) {
            // Superslabs are made and released while the figures are read.
            void *runs[2 * EMPTY_SUPERSLABS_MIN + 8];
            for (void *&run : runs) run = hak_malloc(RUN_BYTES_MAX);
            for (int i = 0; i < 100; i++) hak_free(hak_malloc(rng.below(100000)));
            for (void *run : runs) hak_free(run);
            hak_purge();
        }
    });
    for (int i = 0; i < test::rounds(20000); i++) {
        hak_stats stats = get();
        EXPECT_LT(stats.reserved_bytes, (size_t)1 << 40);
        EXPECT_LE(stats.slab_bytes, stats.reserved_bytes);
    }
    done = true;
    busy.join();
}

TEST_F(Stats, Print)
{
    void *block = hak_malloc(5 * MIB);
    char *text = nullptr;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    hak_stats_print(stream);
    fclose(stream);
    std::string printed(text, length);
    free(text);
    for (const char *part : {"reserved", "slabs", "small blocks", "page runs", "5242880 bytes", "free, dirty", "heaps",
                             "PURGE_DELAY_MS", "HUGE_CACHE_MIB", "STATS"})
        EXPECT_NE(printed.find(part), std::string::npos) << part;
    size_t lines = 0, at = 0;
    for (size_t end; (end = printed.find('\n', at)) != std::string::npos; at = end + 1) {
        EXPECT_EQ(printed.compare(at, 8, "hakmem: "), 0);
        // Lines of the debug-validation build; counters_test.cc tests them.
        bool counter =
            printed.compare(at, 16, "hakmem: counter ") == 0 || printed.compare(at, 14, "hakmem: class ") == 0;
        bool check = printed.find("hakmem: option FAILFAST", at) == at;
        EXPECT_TRUE(VALIDATE || (!counter && !check));
        if (!counter && !check) lines++;
    }
    EXPECT_EQ(lines, 20u);
    hak_free(block);
}

namespace {

// What a report must say of these figures, to the byte.
std::string expected_report(int format, const hak_figures &of, bool is_profiled)
{
    std::string all = format == HAKMEM_STATS_JSON ? "{\n" : "";
    const auto add = [&](const std::string &name, const std::string &kind, const std::string &meaning, uint64_t value) {
        const std::string number = std::to_string(value), full = name + (kind == "counter" ? "_total" : "");
        if (format == HAKMEM_STATS_TEXT) all += "hakmem: " + name + " " + number + "\n";
        else if (format == HAKMEM_STATS_JSON) all += "  \"" + name + "\": " + number + ",\n";
        else
            all += "# HELP hakmem_" + full + " " + meaning + "\n# TYPE hakmem_" + full + " " + kind + "\nhakmem_" +
                   full + " " + number + "\n";
    };
#define X(member, kind, meaning) add(#member, #kind, meaning, of.member);
    HAKMEM_FIGURES(X)
#undef X
    const std::pair<std::string, std::string> names[] = {
        {"slab_bytes", "pages of the class's slabs"},
        {"used_blocks", "live, or in a cache"},
        {"credit", "frees that a bin takes in the heap that has learned most"},
        {"live_blocks", "estimate of the heap profile"},
        {"wasted_bytes", "what rounding up adds to live blocks, estimate of the heap profile"}};
    std::vector<std::string> classes, families;
    for (const auto &[name, meaning] : names)
        families.push_back("# HELP hakmem_class_" + name + " " + meaning + "\n# TYPE hakmem_class_" + name +
                           " gauge\n");
    if (!is_profiled) families.resize(3);
    for (size_t i = 0; i + 1 < CLASS_COUNT; i++) {
        if (of.classes[i].slab_bytes == 0 && of.class_live_blocks[i] == 0) continue;
        const std::string bytes = std::to_string(of.classes[i].block_bytes);
        const bool is_aligned = i + 1 >= CLASS_ALIGNED_FIRST;
        const uint64_t figures[] = {of.classes[i].slab_bytes, of.classes[i].used_blocks, of.class_credits[i],
                                    of.class_live_blocks[i], of.class_wasted_bytes[i]};
        std::string line = "hakmem: class " + bytes + (is_aligned ? " aligned" : ""),
                    object = "\n    {\"block_bytes\": " + bytes + ", \"aligned\": " + (is_aligned ? "true" : "false");
        for (size_t which = 0; which < families.size(); which++) {
            const std::string &name = names[which].first, number = std::to_string(figures[which]);
            line += " " + name + " " + number;
            object += ", \"" + name + "\": " + number;
            families[which] += "hakmem_class_" + name + "{bytes=\"" + bytes + "\",aligned=\"" +
                               (is_aligned ? "1" : "0") + "\"} " + number + "\n";
        }
        classes.push_back(format == HAKMEM_STATS_JSON ? (classes.empty() ? "" : ",") + object + "}" : line + "\n");
    }
    if (format == HAKMEM_STATS_JSON) all += "  \"classes\": [";
    for (const std::string &each : format == HAKMEM_STATS_PROMETHEUS ? families : classes) all += each;
    return all + (format == HAKMEM_STATS_JSON ? "\n  ]\n}\n" : "");
}

} // namespace

// Each format is the figures, to the byte: those of a heap at rest, of one at work, and beside a heap profile.
TEST_F(Stats, AReportSaysTheFigures)
{
    EXPECT_TRUE(test::in_child([] {
        std::vector<void *> blocks;
        for (int work = 0; work < 3; work++) {
            const bool is_profiled = work == 2 && !VALIDATE && !SANITIZED;
            for (void *block : blocks) hak_free(block);
            blocks.clear();
            if (is_profiled) ASSERT_EQ(profile_start(1, 7), 0); // every block
            if (work > 0) blocks.push_back(hak_malloc(SMALL_BYTES_MAX)); // the last class before those of alignments
            for (size_t size = 1; work > 0 && size < 3 * MIB; size = size * 3 / 2 + 1) {
                blocks.push_back(hak_malloc(size));
                blocks.push_back(hak_aligned_alloc(64, size));
            }
            for (int format : {HAKMEM_STATS_TEXT, HAKMEM_STATS_JSON, HAKMEM_STATS_PROMETHEUS}) {
                FILE *file = tmpfile();
                hak_figures figures;
                hak_figures_get(&figures, sizeof figures);
                ASSERT_EQ(stats_write(fileno(file), format), 0);
                std::string written(1 << 17, 0);
                written.resize((size_t)pread(fileno(file), written.data(), written.size(), 0));
                EXPECT_EQ(written, expected_report(format, figures, is_profiled)) << work << " " << format;
                fclose(file);
            }
            EXPECT_EQ(stats_write(STDOUT_FILENO, HAKMEM_STATS_TEXT - 1), EINVAL);
            EXPECT_EQ(stats_write(STDOUT_FILENO, HAKMEM_STATS_PROMETHEUS + 1), EINVAL);
        }
        for (void *block : blocks) hak_free(block);
    }));
}

// Where standard error takes no more, nothing is said there about that either: the room that is left is not used.
TEST_F(Stats, AFullStandardErrorIsLeftAlone)
{
    EXPECT_TRUE(test::in_child([] {
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
        const std::string before((size_t)fcntl(ends[1], F_SETPIPE_SZ, PAGE_BYTES) - 300, 'x');
        ASSERT_EQ(write(ends[1], before.data(), before.size()), (ssize_t)before.size());
        const int kept = dup(STDERR_FILENO);
        dup2(ends[1], STDERR_FILENO);
        stats_signal_due |= STATS_DUE;
        stats_signal_write(); // in parts of 512 bytes
        dup2(kept, STDERR_FILENO);
        std::string after(2 * before.size(), 0);
        EXPECT_EQ(read(ends[0], after.data(), after.size()), (ssize_t)before.size());
    }));
}

// Without a standard input the file gets descriptor 0: it is written whole, and closed.
TEST_F(Stats, AFileWithDescriptorZero)
{
    EXPECT_TRUE(test::in_child([] {
        char path[] = "/tmp/hakmem-stats-XXXXXX";
        close(mkstemp(path));
        ASSERT_TRUE(stats_target_set((std::string("json:") + path).c_str()));
        close(STDIN_FILENO);
        stats_signal_due |= STATS_DUE;
        stats_signal_write();
        EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
        FILE *file = fopen(path, "r");
        std::string text(1 << 16, 0);
        text.resize(fread(text.data(), 1, text.size(), file));
        fclose(file);
        unlink(path);
        EXPECT_EQ(text.substr(0, 2), "{\n");
        EXPECT_EQ(text.substr(text.size() - 2), "}\n");
    }));
}

// Two signals that come to two threads at once: what each asks for is due.
TEST_F(Stats, NoSignalIsLostBesideAnother)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    EXPECT_TRUE(test::in_child([] {
        ASSERT_TRUE(stats_signal_start(SIGUSR1, STATS_DUE) && stats_signal_start(SIGUSR2, PROFILE_DUE));
        struct sigaction action;
        ASSERT_EQ(sigaction(SIGUSR1, nullptr, &action), 0);
        std::atomic<int> arrived{0};
        const auto await = [&](int count) {
            arrived++;
            for (int spins = 0; arrived < count; spins++)
                if (spins > 10000) std::this_thread::yield(); // where there is one processor
        };
        test::in_threads(2, [&](int thread) {
            for (int i = 0; i < test::rounds(10000); i++) {
                action.sa_handler(thread == 0 ? SIGUSR1 : SIGUSR2); // the kernel would call it less often
                await(4 * i + 2);
                if (thread == 0) EXPECT_EQ(stats_signal_due.exchange(0), (uint32_t)(STATS_DUE | PROFILE_DUE));
                await(4 * i + 4);
            }
        });
    }));
}

TEST_F(Stats, WhatBinsAndTheCacheOfMappingsHaveLearned)
{
    EXPECT_TRUE(test::in_child([] {
        hak_free(hak_malloc(500));
        hak_purge_all();
        const uint32_t c = sizeclass_of(500), most = sizeclass_credit_grown(c);
        hak_figures before{}, after{};
        hak_figures_get(&before, sizeof before);
        for (int round = 0; round < 40; round++) {
            std::vector<void *> blocks;
            for (uint32_t i = 0; i < 4 * most; i++) blocks.push_back(hak_malloc(500));
            for (void *block : blocks) hak_free(block);
        }
        hak_figures_get(&after, sizeof after);
        EXPECT_EQ(after.class_credits[c - 1], most);
        EXPECT_GT(after.classes_grown, 0u);
        EXPECT_EQ(before.huge_learned_bytes, 0u);
        void *stays = hak_malloc(3 * MIB);
        for (int round = 0; round < 10; round++) {
            std::vector<void *> blocks;
            for (int i = 0; i < 24; i++) blocks.push_back(hak_malloc(16 * MIB));
            for (void *block : blocks) hak_free(block);
        }
        hak_figures_get(&after, sizeof after);
        EXPECT_GT(after.huge_learned_bytes, 0u);
        hak_free(stays);
    }));
}

// Sampled small blocks lie outside the slabs: each counts with its class's bytes until it is freed, and its slot is
// resident. Runs and huge blocks are counted where they lie, sampled or not.
TEST_F(Stats, SampledBlocksCountAsTheOthers)
{
    if (VALIDATE || SANITIZED) GTEST_SKIP() << "this build takes no heap profile";
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        hak_free(hak_malloc(1000));
        hak_purge();
        const hak_stats before = get();
        hak_figures resident_before, resident;
        hak_figures_get(&resident_before, sizeof resident_before);
        std::vector<void *> blocks;
        for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(1000));
        hak_figures_get(&resident, sizeof resident);
        EXPECT_GE(get().small_bytes, before.small_bytes + 100u * 1008);
        EXPECT_LE(get().small_bytes, before.small_bytes + 101u * 1008 + CARVE_BYTES)
            << "and the one that a sample stands for";
        EXPECT_GE(resident.resident_bytes, resident_before.resident_bytes + 100u * 1008);
        const size_t small_bytes = get().small_bytes;
        blocks.push_back(hak_malloc(100000));
        blocks.push_back(hak_malloc(3 * MIB));
        EXPECT_EQ(get().small_bytes, small_bytes);
        for (void *block : blocks) hak_free(block);
        hak_purge();
        EXPECT_EQ(get().small_bytes, before.small_bytes);
    }));
}

TEST_F(Stats, Figures)
{
    std::vector<void *> blocks;
    for (int i = 0; i < 1000; i++) blocks.push_back(hak_malloc(500));
    void *huge = hak_malloc(5 * MIB);
    hak_figures figures;
    EXPECT_EQ(hak_figures_get(&figures, sizeof figures), sizeof figures);
    hak_stats stats = get();
    EXPECT_EQ(figures.mapped_bytes, stats.reserved_bytes);
    EXPECT_EQ(figures.used_bytes, stats.small_bytes + stats.run_bytes + stats.huge_bytes);
    EXPECT_EQ(figures.committed_bytes, stats.slab_bytes + stats.run_bytes + stats.dirty_bytes + stats.huge_bytes);
    EXPECT_GE(figures.committed_peak_bytes, figures.committed_bytes);
    EXPECT_EQ(figures.heaps, figures.orphans + figures.threads);
    EXPECT_GE(figures.refills, 1000u * 512 / PAGE_BYTES);
    EXPECT_GE(figures.slabs_made, 8u);
    EXPECT_EQ(figures.superslabs_made - figures.superslabs_released, figures.superslabs);
    const hak_class_figures &of_class = figures.classes[sizeclass_of(500) - 1];
    EXPECT_EQ(of_class.block_bytes, 512u);
    EXPECT_GE(of_class.used_blocks, 1000u);
    EXPECT_EQ(of_class.slab_bytes, 8u * PAGE_BYTES);
    EXPECT_EQ(figures.classes[CLASS_COUNT - 1].block_bytes, 0u) << "the list ends";
    EXPECT_GE(figures.class_credits[sizeclass_of(500) - 1], sizeclass_credit(sizeclass_of(500)));
    for (void *block : blocks) hak_free(block);
    hak_free(huge);
    hak_purge();
    hak_figures after;
    hak_figures_get(&after, sizeof after);
    EXPECT_EQ(after.committed_bytes, 0u);
    EXPECT_EQ(after.resident_bytes, 0u);
    EXPECT_EQ(after.idle_bytes, 0u);
    EXPECT_GE(after.slabs_released, figures.slabs_released + 8);
    EXPECT_GE(after.purged_bytes, figures.purged_bytes + 8 * PAGE_BYTES);
    // Programs that know fewer members, the second as version 0.1.0 was at first, and one that knows more.
    struct {
        uint64_t mapped_bytes, behind;
    } small = {1, 77};
    EXPECT_EQ(hak_figures_get((hak_figures *)&small, sizeof small.mapped_bytes), sizeof(hak_figures));
    EXPECT_EQ(small.mapped_bytes, after.mapped_bytes);
    EXPECT_EQ(small.behind, 77u);
    struct {
        uint64_t members[42];
        hak_class_figures classes[HAKMEM_CLASSES_MAX];
        uint64_t behind;
    } first;
    first.behind = 77;
    hak_figures_get((hak_figures *)&first, offsetof(decltype(first), behind));
    EXPECT_EQ(first.classes[0].block_bytes, 16u);
    EXPECT_EQ(first.behind, 77u);
    struct {
        hak_figures known;
        uint64_t more[4];
    } large;
    memset(&large, 0xff, sizeof large);
    hak_figures_get(&large.known, sizeof large);
    EXPECT_EQ(large.known.mapped_bytes, after.mapped_bytes);
    for (uint64_t each : large.more) EXPECT_EQ(each, 0u);
}

// All that was got is touched: then the books and the kernel say the same.
TEST_F(Stats, TheBooksAgreeWithTheKernel)
{
    SKIP_UNDER_SANITIZER("its own memory is in the same mappings");
    std::vector<std::pair<char *, size_t>> blocks;
    test::Rng rng;
    for (int i = 0; i < 20000; i++) {
        size_t size = i % 100 == 0 ? rng.between(RUN_BYTES_MAX / 4, RUN_BYTES_MAX) : rng.between(1, 4000);
        blocks.emplace_back((char *)hak_malloc(hak_good_size(size)), hak_good_size(size));
    }
    blocks.emplace_back((char *)hak_malloc(9 * MIB), 9 * MIB);
    for (auto &[block, size] : blocks) memset(block, 1, size);
    // The superslabs and huge blocks, by mincore.
    std::vector<uintptr_t> bases;
    for (auto &[block, size] : blocks) bases.push_back((uintptr_t)block / SUPERSLAB_BYTES * SUPERSLAB_BYTES);
    auto huge = (uintptr_t)blocks.back().first;
    std::sort(bases.begin(), bases.end());
    bases.erase(std::unique(bases.begin(), bases.end()), bases.end());
    size_t os_bytes = (size_t)sysconf(_SC_PAGESIZE), resident = 0;
    for (uintptr_t base : bases) {
        size_t bytes = base == huge ? size_t{9 * MIB} : size_t{SUPERSLAB_BYTES};
        std::vector<unsigned char> there(bytes / os_bytes);
        ASSERT_EQ(mincore((void *)base, bytes, there.data()), 0);
        for (unsigned char each : there) resident += (each & 1) * os_bytes;
    }
    hak_figures figures;
    hak_figures_get(&figures, sizeof figures);
    printf("%zu bytes by the books, %zu by the kernel\n", (size_t)figures.resident_bytes, resident);
    EXPECT_NEAR((double)figures.resident_bytes, (double)resident, 0.01 * (double)resident);
    for (auto &[block, size] : blocks) hak_free(block);
}

TEST_F(Stats, GoodSizesAreUsableSizes)
{
    for (size_t size : {0u, 1u, 16u, 17u, 1000u, 1025u, 5000u, 32768u, 32769u, 70000u, 3u << 20}) {
        void *block = hak_malloc(size);
        EXPECT_EQ(hak_good_size(size), hak_malloc_usable_size(block)) << size;
        hak_free(block);
        hak_sized_block got = hak_malloc_at_least(size);
        EXPECT_EQ(got.size_bytes, hak_malloc_usable_size(got.block)) << size;
        memset(got.block, 1, got.size_bytes);
        hak_free(got.block);
    }
    EXPECT_EQ(hak_good_size(SIZE_MAX), SIZE_MAX);
    hak_sized_block none = hak_malloc_at_least(SIZE_MAX);
    EXPECT_EQ(none.block, nullptr);
    EXPECT_EQ(none.size_bytes, 0u);
}
