// stats_write_test.cc: what is written follows the figures, in each format, and where it cannot be written.
#include "heap/heap_test_support.h"

#include <fcntl.h>
#include <hakmem/crash.h>

#include <cerrno>
#include <regex>
#include <set>

extern "C" {
#include "control/stats_write.h"
#include "profile/profile.h"
#include "report/writer.h"
}

namespace {

using test::MIB;

class StatsWrite : public test::HeapTest {};

TEST_F(StatsWrite, Print)
{
    void *block = hak_malloc(5 * MIB);
    const std::string printed = test::printed(hak_stats_print);
    for (const char *part : {"reserved", "slabs", "small blocks", "page runs", "5.0 MiB", "free, dirty", "heaps",
                             "in use", "committed", "peak", "resident", "resident, peak", "libhakmem " HAKMEM_VERSION})
        EXPECT_NE(printed.find(part), std::string::npos) << part;
    size_t lines = 0, at = 0;
    for (size_t end; (end = printed.find('\n', at)) != std::string::npos; at = end + 1) {
        EXPECT_EQ(printed.compare(at, 8, "hakmem: "), 0);
        bool check = printed.find("hakmem: option FAILFAST", at) == at;
        EXPECT_TRUE(VALIDATE || !check);
        if (!check) lines++;
    }
    EXPECT_EQ(lines, 15u);
    hak_free(block);
}

// The text is the same by each way.
TEST_F(StatsWrite, TextIsThatOfPrint)
{
    FILE *file = tmpfile();
    const std::string printed = test::printed(hak_stats_print);
    ASSERT_EQ(stats_write(fileno(file), HAKMEM_STATS_TEXT), 0);
    std::string written(1 << 14, 0);
    written.resize((size_t)pread(fileno(file), written.data(), written.size(), 0));
    fclose(file);
    const auto after_head = [](const std::string &text) { return text.substr(text.find('\n')); }; // the age is in it
    const auto lines = [](const std::string &text) { return std::count(text.begin(), text.end(), '\n'); };
    EXPECT_EQ(lines(written), lines(printed));
    EXPECT_EQ(after_head(written).substr(0, 16), after_head(printed).substr(0, 16));
}

// The labels of each of Prometheus' samples; others may follow.
std::string labels_and()
{
    return std::string("{program=\"") + program_invocation_short_name + "\",process=\"" + std::to_string(getpid()) +
           "\"";
}

// What a report must say of the process; the time and the age are those that it says.
std::string expected_head(int format, const std::string &written)
{
    const auto field = [&](const std::string &pattern) {
        std::smatch found;
        return std::regex_search(written, found, std::regex(pattern)) ? found[1].str() : "none";
    };
    const std::string name = program_invocation_short_name, number = std::to_string(getpid()), version = HAKMEM_VERSION;
    const std::string time = field("(20\\d\\d-[01]\\d-[0-3]\\dT[0-2]\\d:[0-5]\\d:[0-5]\\dZ)"),
                      age = field("age_ms\"?:? (\\d+)");
    if (format == HAKMEM_STATS_JSON)
        return "{\n  \"program\": \"" + name + "\",\n  \"process\": " + number + ",\n  \"version\": \"" + version +
               "\",\n  \"time\": \"" + time + "\",\n  \"age_ms\": " + age + ",\n";
    return "# HELP hakmem_info the process, by labels\n# TYPE hakmem_info gauge\nhakmem_info" + labels_and() +
           ",version=\"" + version + "\"} 1\n# HELP hakmem_age_seconds since the process began\n" +
           "# TYPE hakmem_age_seconds gauge\nhakmem_age_seconds" + labels_and() + "} " +
           field("age_seconds.* (\\d+\\.\\d{3})\n") + "\n";
}

// What a report must say of these figures, to the byte.
std::string expected_report(int format, const hak_figures &of, bool is_profiled)
{
    std::string all;
    const auto add = [&](const std::string &name, const std::string &kind, const std::string &meaning, uint64_t value) {
        const std::string number = std::to_string(value), full = name + (kind == "counter" ? "_total" : "");
        if (format == HAKMEM_STATS_JSON) all += "  \"" + name + "\": " + number + ",\n";
        else
            all += "# HELP hakmem_" + full + " " + meaning + "\n# TYPE hakmem_" + full + " " + kind + "\nhakmem_" +
                   full + labels_and() + "} " + number + "\n";
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
        std::string object = "\n    {\"block_bytes\": " + bytes + ", \"aligned\": " + (is_aligned ? "true" : "false");
        for (size_t which = 0; which < families.size(); which++) {
            const std::string &name = names[which].first, number = std::to_string(figures[which]);
            object += ", \"" + name + "\": " + number;
            families[which] += "hakmem_class_" + name + labels_and() + ",bytes=\"" + bytes + "\",aligned=\"" +
                               (is_aligned ? "1" : "0") + "\"} " + number + "\n";
        }
        classes.push_back((classes.empty() ? "" : ",") + object + "}");
    }
    if (format == HAKMEM_STATS_JSON) all += "  \"classes\": [";
    for (const std::string &each : format == HAKMEM_STATS_PROMETHEUS ? families : classes) all += each;
    return all + (format == HAKMEM_STATS_JSON ? "\n  ]\n}\n" : "");
}

// Each format is the figures, to the byte: those of a heap at rest, of one at work, and beside a heap profile.
TEST_F(StatsWrite, AReportSaysTheFigures)
{
    EXPECT_TRUE(test::in_child([] {
        std::vector<void *> blocks;
        for (int work = 0; work < 3; work++) {
            const bool is_profiled = work == 2 && !VALIDATE && !SANITIZED;
            for (void *block : blocks) hak_free(block);
            blocks.clear();
            hak_purge_all(); // bins with blocks would serve the next ones, and none is sampled
            if (is_profiled) ASSERT_EQ(profile_start(1, 7), 0); // every block
            for (uint32_t c = 1; work > 0 && c < CLASS_COUNT; c++) // a block of each class
                blocks.push_back(hak_aligned_alloc(
                    c < CLASS_ALIGNED_FIRST ? GRANULE_BYTES : (size_t)COLOURED_STEP_BYTES, sizeclass_bytes(c)));
            for (size_t size = 1; work > 0 && size < 3 * MIB; size = size * 3 / 2 + 1) {
                blocks.push_back(hak_malloc(size));
                blocks.push_back(hak_aligned_alloc(64, size));
            }
            if (is_profiled) hak_purge_all(); // the slabs go, of which only sampled blocks were wanted
            bool any_without_slab = false;
            for (int format : {HAKMEM_STATS_JSON, HAKMEM_STATS_PROMETHEUS}) {
                FILE *file = tmpfile();
                hak_figures figures;
                hak_figures_get(&figures, sizeof figures);
                ASSERT_EQ(stats_write(fileno(file), format), 0);
                std::string written(1 << 17, 0);
                written.resize((size_t)pread(fileno(file), written.data(), written.size(), 0));
                EXPECT_EQ(written, expected_head(format, written) + expected_report(format, figures, is_profiled))
                    << work << " " << format;
                fclose(file);
                for (size_t i = 0; i + 1 < CLASS_COUNT; i++)
                    any_without_slab |= figures.classes[i].slab_bytes == 0 && figures.class_live_blocks[i] != 0;
            }
            EXPECT_EQ(any_without_slab, is_profiled) << work;
            EXPECT_EQ(stats_write(STDOUT_FILENO, HAKMEM_STATS_TEXT - 1), EINVAL);
            EXPECT_EQ(stats_write(STDOUT_FILENO, HAKMEM_STATS_PROMETHEUS + 1), EINVAL);
        }
        for (void *block : blocks) hak_free(block);
    }));
}

// If standard error takes no more, nothing is said there about that either: the room that is left is not used.
TEST_F(StatsWrite, AFullStandardErrorIsLeftAlone)
{
    EXPECT_TRUE(test::in_child([] {
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
        const std::string before((size_t)fcntl(ends[1], F_SETPIPE_SZ, PAGE_BYTES) - 200, 'x');
        ASSERT_EQ(write(ends[1], before.data(), before.size()), (ssize_t)before.size());
        const int kept = dup(STDERR_FILENO);
        dup2(ends[1], STDERR_FILENO);
        writer_due |= STATS_DUE;
        stats_write_due(); // in parts of more than 256 bytes
        dup2(kept, STDERR_FILENO);
        std::string after(2 * before.size(), 0);
        EXPECT_EQ(read(ends[0], after.data(), after.size()), (ssize_t)before.size());
    }));
}

// Without a standard input the file gets descriptor 0: it is written whole, and closed.
TEST_F(StatsWrite, AFileWithDescriptorZero)
{
    EXPECT_TRUE(test::in_child([] {
        char path[] = "/tmp/hakmem-stats-XXXXXX";
        close(mkstemp(path));
        ASSERT_TRUE(stats_target_set((std::string("json:") + path).c_str()));
        close(STDIN_FILENO);
        writer_due |= STATS_DUE;
        stats_write_due();
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

// A call in which the program waits continues after the signal.
TEST_F(StatsWrite, ASignalInterruptsNoCallOfTheProgram)
{
    EXPECT_TRUE(test::in_child([] {
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        ASSERT_TRUE(stats_signal_start(SIGUSR1, STATS_DUE));
        const pid_t sender = fork();
        if (sender == 0) {
            for (int i = 0; i < 100; i++) {
                kill(getppid(), SIGUSR1);
                usleep(1000);
            }
            _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
        }
        char byte = 0;
        const ssize_t got = read(ends[0], &byte, 1);
        const int error = errno;
        int status = 0;
        while (waitpid(sender, &status, 0) < 0 && errno == EINTR) {}
        EXPECT_EQ(got, 1) << strerror(error);
        EXPECT_EQ(status, 0);
        EXPECT_EQ(writer_due.exchange(0), (uint32_t)STATS_DUE);
    }));
}

// A program that faults must end, and a handler that returns would have it fault for ever.
TEST_F(StatsWrite, AnySignalButThoseOfFaults)
{
    EXPECT_TRUE(test::in_child([] {
        const std::set<int> refused = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGSTOP, SIGSYS, 32, 33};
        for (int signal = 1; signal <= 64; signal++) {
            struct sigaction before = {}, now = {};
            const bool is_known = sigaction(signal, nullptr, &before) == 0;
            errno = 7;
            EXPECT_EQ(stats_signal_start(signal, signal % 2 == 0 ? STATS_DUE : PROFILE_DUE), !refused.contains(signal))
                << signal;
            EXPECT_EQ(errno, 7);
            if (!is_known || !refused.contains(signal)) continue;
            sigaction(signal, nullptr, &now);
            EXPECT_EQ(now.sa_handler, before.sa_handler) << signal;
        }
    }));
}

TEST_F(StatsWrite, OneSignalMayAskForBoth)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_TRUE(stats_signal_start(SIGUSR1, STATS_DUE) && stats_signal_start(SIGUSR1, PROFILE_DUE));
        raise(SIGUSR1);
        EXPECT_EQ(writer_due.load(), (uint32_t)(STATS_DUE | PROFILE_DUE));
    }));
}

// Two signals that come to two threads at once: what each asks for is due.
TEST_F(StatsWrite, NoSignalIsLostBesideAnother)
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
                if (thread == 0) EXPECT_EQ(writer_due.exchange(0), (uint32_t)(STATS_DUE | PROFILE_DUE));
                await(4 * i + 4);
            }
        });
    }));
}

// Each %p of a file's name is the id of the process that writes it; nothing else in a name is special.
TEST_F(StatsWrite, AFilesNameTakesTheProcess)
{
    char folder[] = "/tmp/hakmem-stats-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const struct {
        const char *before, *after; // P: the id, E: the name
    } names[] = {{"%p", "P"},    {"a%p", "aP"}, {"%pa", "Pa"}, {"%p%p", "PP"},   {"%%p", "%P"}, {"a%", "a%"},
                 {"%d%", "%d%"}, {"p", "p"},    {"%e", "E"},   {"%e.%p", "E.P"}, {"%%e", "%E"}};
    for (const auto &name : names)
        for (int generation = 0; generation < 2; generation++) {
            auto write_one = [&] {
                ASSERT_TRUE(stats_target_set((std::string("json:") + folder + "/" + name.before).c_str()));
                writer_due |= STATS_DUE;
                stats_write_due();
                std::string wanted = name.after;
                for (size_t at; (at = wanted.find('P')) != std::string::npos;)
                    wanted.replace(at, 1, std::to_string(getpid()));
                if (const size_t at = wanted.find('E'); at != std::string::npos)
                    wanted.replace(at, 1, program_invocation_short_name);
                wanted = std::string(folder) + "/" + wanted;
                EXPECT_EQ(access(wanted.c_str(), F_OK), 0) << wanted;
                unlink(wanted.c_str());
            };
            EXPECT_TRUE(test::in_child([&] {
                if (generation == 0) write_one();
                else EXPECT_TRUE(test::in_child(write_one)) << "not the name of the parent";
            }));
        }
    EXPECT_EQ(rmdir(folder), 0) << "a file of another name is there";
}

// The longest name that is taken, with as many ids as it has room for, is not cut.
TEST_F(StatsWrite, ALongNameIsNotCut)
{
    EXPECT_TRUE(test::in_child([] {
        std::string name = "json:/";
        while (name.size() < 5 + 1023 - 1) name += "%p";
        ASSERT_TRUE(stats_target_set(name.c_str()));
        EXPECT_FALSE(stats_target_set((name + "more").c_str()));
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        const int kept = dup(STDERR_FILENO);
        dup2(ends[1], STDERR_FILENO);
        writer_due |= STATS_DUE;
        stats_write_due(); // a name that no file may have
        dup2(kept, STDERR_FILENO);
        std::string said(16384, 0);
        said.resize((size_t)read(ends[0], said.data(), said.size()));
        const std::string id = std::to_string(getpid());
        std::string wanted = "hakmem: HAKMEM_STATS: /";
        for (int i = 0; i < 510; i++) wanted += id;
        EXPECT_EQ(said.substr(0, wanted.size()), wanted);
        EXPECT_NE(said.find(" cannot be written: ENAMETOOLONG (File name too long)\n"), std::string::npos);
    }));
}

// A fiber's stack may be too small for a signal's frame.
TEST_F(StatsWrite, EachHandlerOfOursRunsOnTheSignalStack)
{
    EXPECT_TRUE(test::in_child([] {
        auto actions = [] {
            std::vector<struct sigaction> now(65);
            for (int signal = 1; signal < 65; signal++) sigaction(signal, nullptr, &now[(size_t)signal]);
            return now;
        };
        const auto before = actions();
        ASSERT_TRUE(stats_signal_start(SIGUSR1, STATS_DUE) && stats_signal_start(SIGUSR2, PROFILE_DUE));
        ASSERT_EQ(hak_crash_handler_install("/tmp"), 0);
        const auto after = actions();
        int changed = 0;
        for (size_t signal = 1; signal < 65; signal++) {
            if (after[signal].sa_handler == before[signal].sa_handler) continue;
            changed++;
            EXPECT_TRUE((after[signal].sa_flags & SA_ONSTACK) != 0) << signal;
        }
        EXPECT_EQ(changed, 7);
    }));
}

} // namespace
