// options_test.cc: the options in the environment. Each test reads them in a child, as a process does at its start.
#include "heap/heap_test_support.h"

extern "C" {
#include "guard/guard.h"
#include "heap/huge.h"
#include "control/options.h"
#include "profile/profile_write.h"
#include "os/os.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

// Reads the entries in a child and runs `then` there. Returns what options_read wrote to standard error.
template <class Then> void reading(std::vector<std::string> entries, Then then)
{
    std::vector<char *> environment;
    for (std::string &entry : entries) environment.push_back(entry.data());
    environment.push_back(nullptr);
    EXPECT_TRUE(test::in_child([&] {
        testing::internal::CaptureStderr();
        options_read(environment.data());
        then(testing::internal::GetCapturedStderr());
    }));
}

void expect_standard()
{
    EXPECT_EQ(option_value(OPTION_PURGE_DELAY_MS), (uint64_t)PURGE_DELAY_MS);
    EXPECT_EQ(option_value(OPTION_HUGE_CACHE_MIB), (uint64_t)HUGE_CACHE_BYTES_MAX >> 20);
    EXPECT_EQ(option_value(OPTION_HUGE_PAGES), 0u);
    EXPECT_EQ(option_value(OPTION_STATS), 0u);
    EXPECT_EQ(option_value(OPTION_GUARD_SAMPLE), 0u);
    EXPECT_EQ(option_value(OPTION_GUARD_SLOTS), (uint64_t)GUARD_SLOTS);
}

} // namespace

TEST(Options, NothingSaid)
{
    reading({}, [](const std::string &said) {
        EXPECT_EQ(said, "");
        expect_standard();
    });
    reading({"HAKMEM_STATS", "HAKMEM_"}, [](const std::string &said) { /* no value: no option */
                                                                       EXPECT_EQ(said, "");
                                                                       expect_standard();
    });
    EXPECT_TRUE(test::in_child([] {
        options_read(nullptr);
        expect_standard();
    }));
}

TEST(Options, GoodValues)
{
    reading({"PATH=/bin", "HAKMEM_PURGE_DELAY_MS=0", "HAKMEM_HUGE_CACHE_MIB=1048576", "HAKMEM_HUGE_PAGES=1",
             "HAKMEM_STATS=1", "HAKMEM_GUARD_SAMPLE=1000000000", "HAKMEM_GUARD_SLOTS=16384"},
            [](const std::string &said) {
                EXPECT_EQ(said, "");
                EXPECT_EQ(option_value(OPTION_PURGE_DELAY_MS), 0u);
                EXPECT_EQ(option_value(OPTION_HUGE_CACHE_MIB), 1048576u);
                EXPECT_EQ(option_value(OPTION_HUGE_PAGES), 1u);
                EXPECT_EQ(option_value(OPTION_STATS), 1u);
                EXPECT_EQ(option_value(OPTION_GUARD_SAMPLE), 1000000000u);
                EXPECT_EQ(option_value(OPTION_GUARD_SLOTS), 16384u);
            });
    reading({"HAKMEM_PURGE_DELAY_MS=3600000", "HAKMEM_HUGE_CACHE_MIB=0", "HAKMEM_STATS=0",
             "HAKMEM_HUGE_PAGES=0000000000000000000000000001"},
            [](const std::string &said) {
                EXPECT_EQ(said, "");
                EXPECT_EQ(option_value(OPTION_PURGE_DELAY_MS), 3600000u);
                EXPECT_EQ(option_value(OPTION_HUGE_CACHE_MIB), 0u);
                EXPECT_EQ(option_value(OPTION_HUGE_PAGES), 1u);
            });
}

// Half of it is the largest mapping that is kept, up to the option's largest value.
TEST(Options, TheHugeCacheHasItsMebibytes)
{
    const size_t size_max = test::sanitizer() != nullptr ? 64 * test::MIB : 2048 * test::MIB + PAGE_BYTES;
    for (const size_t mib : {0, 1, 4, 5, 64, 2047, 2048, 4095, 4096, 4097, 1048576})
        reading({"HAKMEM_HUGE_CACHE_MIB=" + std::to_string(mib)}, [&](const std::string &said) {
            EXPECT_EQ(said, "");
            const size_t most = mib * test::MIB / 2;
            for (const size_t size : {(size_t)RUN_BYTES_MAX + PAGE_BYTES, 3 * test::MIB, most, most + PAGE_BYTES}) {
                if (size <= RUN_BYTES_MAX || size > size_max) continue;
                void *block = hak_malloc(size);
                ASSERT_NE(block, nullptr);
                hak_free(block);
                EXPECT_EQ(huge_is_cached(block), size <= most) << size << " bytes, " << mib << " MiB";
                hak_purge();
            }
        });
}

TEST(Options, ABadFailfastSettingWarns)
{
    SKIP_WITHOUT_VALIDATE();
    for (std::string entry : {"HAKMEM_FAILFAST=maybe", "HAKMEM_FAILFAST_LEVEL=4"})
        reading({entry}, [&](const std::string &said) {
            EXPECT_NE(said.find(entry), std::string::npos) << said;
            EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
            expect_standard();
        });
}

TEST(Options, BadValuesWarnInOneLineAndKeepTheDefault)
{
    for (std::string entry :
         {"HAKMEM_PURGE_DELAY_MS=", "HAKMEM_PURGE_DELAY_MS=3600001", "HAKMEM_PURGE_DELAY_MS=-1",
          "HAKMEM_PURGE_DELAY_MS=+1", "HAKMEM_PURGE_DELAY_MS=1s", "HAKMEM_PURGE_DELAY_MS= 1",
          "HAKMEM_PURGE_DELAY_MS=1 ", "HAKMEM_PURGE_DELAY_MS=0x10", "HAKMEM_PURGE_DELAY_MS=ten",
          "HAKMEM_GUARD_SAMPLE=1000000001", "HAKMEM_GUARD_SLOTS=0", "HAKMEM_GUARD_SLOTS=16385",
          "HAKMEM_HUGE_CACHE_MIB=1048577", "HAKMEM_HUGE_PAGES=3", "HAKMEM_HUGE_CACHE_MIB=18446744073709551615",
          "HAKMEM_HUGE_CACHE_MIB=18446744073709551616", // wraps to 0
          "HAKMEM_PURGE_DELAY_MS=184467440737095516160"}) {
        reading({entry}, [&](const std::string &said) {
            EXPECT_EQ(said.rfind("hakmem: " + entry + ": not a number from ", 0), 0u) << said;
            EXPECT_NE(said.find("; the default stands\n"), std::string::npos) << said;
            expect_standard();
        });
    }
}

TEST(Options, ABadValueIsToldWhatWouldDo)
{
    reading({"HAKMEM_GUARD_SLOTS=0"}, [](const std::string &said) {
        EXPECT_EQ(said, "hakmem: HAKMEM_GUARD_SLOTS=0: not a number from 1 to 16384; the default stands\n");
    });
    for (std::string entry : {"HAKMEM_STATS=yes", "HAKMEM_STATS=1=1", "HAKMEM_STATS=json:"})
        reading({entry}, [&](const std::string &said) {
            EXPECT_EQ(said, "hakmem: " + entry + ": not 0, 1, exit, json:PATH or prom:PATH; the default stands\n");
            expect_standard();
        });
}

TEST(Options, AmountsOfMemory)
{
    reading({"HAKMEM_PREWARM=3M"}, [](const std::string &said) {
        EXPECT_EQ(said, "");
        EXPECT_EQ(options_prewarm_bytes(), 3 * test::MIB);
    });
    for (std::string entry : {"HAKMEM_PREWARM=100%", "HAKMEM_PREWARM=1024T"})
        reading({entry}, [&](const std::string &said) {
            EXPECT_EQ(said, "hakmem: HAKMEM_PREWARM: more than the memory that is available; nothing is faulted in\n");
            EXPECT_EQ(options_prewarm_bytes(), 0u) << "the kernel would end this process or another one";
        });
    for (std::string entry : {"HAKMEM_PREWARM=0", "HAKMEM_PREWARM=", "HAKMEM_PREWARM=1.5G"})
        reading({entry}, [&](const std::string &said) {
            EXPECT_EQ(said,
                      "hakmem: " + entry + ": not BYTES, with K, M, G or T perhaps, nor N%; nothing is faulted in\n");
            EXPECT_EQ(options_prewarm_bytes(), 0u);
        });
    reading({"HAKMEM_LIMIT_SOFT=1KB"}, [&](const std::string &said) {
        EXPECT_EQ(said,
                  "hakmem: HAKMEM_LIMIT_SOFT=1KB: not BYTES, with K, M, G or T perhaps, nor N%; there is no limit\n");
    });
    for (std::string entry : {"HAKMEM_LIMIT=x", "HAKMEM_LIMIT=80", "HAKMEM_LIMIT=63K", "HAKMEM_LIMIT=65535"})
        reading({entry}, [&](const std::string &said) {
            EXPECT_EQ(said, "hakmem: " + entry +
                                ": not BYTES from 64K on, with K, M, G or T perhaps, nor N%; there is no limit\n");
            EXPECT_EQ(limit_get(), SIZE_MAX);
        });
    reading({"HAKMEM_LIMIT=64K", "HAKMEM_LIMIT_SOFT=1"}, [&](const std::string &said) {
        EXPECT_EQ(said, "");
        EXPECT_EQ(limit_get(), (size_t)PAGE_BYTES);
        limit_set(SIZE_MAX);
    });
}

TEST(Options, ABadHeapProfileIsNone)
{
    for (std::string entry : {"HAKMEM_PROFILE=", "HAKMEM_PROFILE=,1K", "HAKMEM_PROFILE=p,", "HAKMEM_PROFILE=p,0",
                              "HAKMEM_PROFILE=p,5%", "HAKMEM_PROFILE=p,1KB"})
        reading({entry}, [&](const std::string &said) {
            EXPECT_EQ(said, "hakmem: " + entry + ": not PREFIX or PREFIX,BYTES; there is no heap profile\n");
            EXPECT_EQ(option_profile_mean_bytes(), 0u);
        });
    char folder[] = "/tmp/hakmem-options-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    for (const char *bytes : {",", ",0", ",5%"})
        reading({"HAKMEM_PROFILE=" + std::string(folder) + "/p" + bytes}, [](const std::string &said) {
            EXPECT_NE(said, "");
            profile_dump_next("exit");
        });
    EXPECT_EQ(rmdir(folder), 0) << "a file has the prefix that was refused";
    reading({"HAKMEM_PROFILE=p%,1K"}, [](const std::string &said) {
        EXPECT_EQ(said, "");
        EXPECT_EQ(option_profile_mean_bytes(), 1024u);
    });
}

TEST(Options, ALongBadValueIsCutOffButStaysOneLine)
{
    std::string entry = "HAKMEM_STATS=" + std::string(5000, 'x');
    reading({entry, "HAKMEM_HUGE_PAGES=1"}, [&](const std::string &said) {
        EXPECT_EQ(said.find("hakmem: HAKMEM_STATS=xxx"), 0u);
        EXPECT_LE(said.size(), 256u);
        EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
        EXPECT_EQ(said.back(), '\n');
        EXPECT_NE(said.find("not 0, 1, exit"), std::string::npos);
        EXPECT_EQ(option_value(OPTION_STATS), 0u);
        EXPECT_EQ(option_value(OPTION_HUGE_PAGES), 1u) << "the next entry is read all the same";
    });
    reading({"HAKMEM_STATS=" + std::string(190, 'x')}, [](const std::string &said) {
        EXPECT_NE(said.find("xxx: not 0, 1, exit, json:PATH or prom:PATH; the default stands\n"), std::string::npos)
            << said;
    });
}

TEST(Options, ANameThatNothingReadsIsNamed)
{
    reading({"HAKMEM_STATSX=1", "HAKMEM_STAT=1", "HAKMEM_A_NAME_OF_MORE_BYTES_THAN_ANY_OPTION_HAS=1"},
            [](const std::string &said) {
                const std::string why = ": no such option: see libhakmem(7), or docs/use.md\n";
                EXPECT_EQ(said, "hakmem: HAKMEM_STATSX" + why + "hakmem: HAKMEM_STAT" + why +
                                    "hakmem: HAKMEM_A_NAME_OF_MORE_BYTES_THAN_ANY_OPTION_HAS" + why);
                expect_standard();
            });
}

TEST(Options, OtherNamesAreLeftAlone)
{
    reading({"HAKMEM_", "HAKMEM_=1", "HAKMEM_STATS", "=", "HAKMEM_STRESS_SUBJECT=x", "HAKMEM_REPLAY_KEEP=1",
             "HAKMEM_TEST_SEED=1", "HAKMEM_FUZZ_TRACE=1", "HAKMEM_CRASH_DIR=/tmp", "HAKMEM_FAILFAST=abort",
             "HAKMEM_FAILFAST_LEVEL=2", "XHAKMEM_STATS=1", "hakmem_stats=1", ""},
            [](const std::string &said) {
                EXPECT_EQ(said, "");
                expect_standard();
            });
}

TEST(Options, TheLastOfTwoCounts)
{
    reading({"HAKMEM_HUGE_CACHE_MIB=1", "HAKMEM_HUGE_CACHE_MIB=2"},
            [](const std::string &) { EXPECT_EQ(option_value(OPTION_HUGE_CACHE_MIB), 2u); });
}

// A delay is that of free pages and of cached mappings alike, whatever the cache's size: a mapping is cached if the cache has
// room and there is a delay, and goes back once the delay is over.
TEST(Options, EachDelayBesideEachCache)
{
    static const uint64_t start_ms = os_now_ms() + 3600 * 1000; // no free is a tick
    for (uint64_t delay_ms : {0u, PURGE_DELAY_MS / 2u, PURGE_DELAY_MS + 0u, 8u * PURGE_DELAY_MS})
        for (uint64_t mib : {0u, 9u, 10u, 64u})
            reading(
                {"HAKMEM_PURGE_DELAY_MS=" + std::to_string(delay_ms), "HAKMEM_HUGE_CACHE_MIB=" + std::to_string(mib)},
                [&](const std::string &) {
                    const size_t cached = delay_ms > 0 && mib >= 10 ? size_t{5} << 20 : 0;
                    EXPECT_EQ(purge_delay_ms(), delay_ms);
                    hak_free(hak_malloc((5 << 20) - 4096)); // the first tick is due in any case
                    huge_purge_all();
                    const uint64_t freed_ms = os_now_ms();
                    hak_free(hak_malloc((5 << 20) - 4096));
                    EXPECT_EQ(huge_figures().cached_bytes, cached) << delay_ms << " ms, " << mib << " MiB";
                    if (delay_ms > 0) huge_tick(freed_ms + delay_ms - 1);
                    EXPECT_EQ(huge_figures().cached_bytes, cached) << delay_ms << " ms, " << mib << " MiB";
                    huge_tick(start_ms + 2 * delay_ms);
                    EXPECT_EQ(huge_figures().cached_bytes, 0u) << delay_ms << " ms, " << mib << " MiB";
                });
}

// The figures name each option that is set to another value than its default, and no other.
TEST(Options, ThoseThatAreSetAreInTheFigures)
{
    const auto option_lines = [] {
        const std::string printed = test::printed(hak_stats_print);
        std::string found;
        for (size_t at = 0; (at = printed.find("hakmem: option ", at)) != printed.npos; at++)
            if (printed.compare(at, 23, "hakmem: option FAILFAST") != 0)
                found += printed.substr(at + 15, printed.find(' ', at + 15) - at - 15) + " ";
        return found;
    };
    reading({}, [&](const std::string &) { EXPECT_EQ(option_lines(), ""); });
#define X(name, standard, low, high, text)                                                    \
    for (uint64_t value : {uint64_t{low}, uint64_t{standard}, uint64_t{low} + 1})             \
        reading({"HAKMEM_" #name "=" + std::to_string(value)}, [&](const std::string &) {     \
            EXPECT_EQ(option_lines(), value == uint64_t{standard} ? "" : #name " ") << value; \
        });
    OPTIONS(X)
#undef X
}

TEST(Options, TheyTakeEffect)
{
    reading({"HAKMEM_PURGE_DELAY_MS=0", "HAKMEM_HUGE_CACHE_MIB=0"}, [](const std::string &) {
        hak_free(hak_malloc(5 << 20));
        EXPECT_EQ(huge_figures().cached_bytes, 0u);
        void *run = hak_malloc(10 * PAGE_BYTES);
        memset(run, 1, 10 * PAGE_BYTES);
        hak_free(run);
        EXPECT_EQ(pool_figures().dirty_pages, 0u);
    });
    reading({"HAKMEM_HUGE_CACHE_MIB=20"}, [](const std::string &) {
        hak_free(hak_malloc(11 << 20));
        EXPECT_EQ(huge_figures().cached_bytes, 0u) << "more than half of it";
        hak_free(hak_malloc(10 << 20));
        EXPECT_EQ(huge_figures().cached_bytes, 10u << 20);
    });
    reading({"HAKMEM_HUGE_PAGES=1"}, [](const std::string &) {
        std::vector<char *> runs;
        for (int i = 0; i < 12; i++) {
            runs.push_back(static_cast<char *>(hak_malloc(RUN_BYTES_MAX)));
            *runs.back() = 1;
        }
        for (char *run : runs) hak_free(run);
    });
}
