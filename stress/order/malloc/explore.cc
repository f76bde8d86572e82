#include "order/malloc/explore.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "order/malloc/report.h"
#include "order/run/kernel_threads.h"

namespace stress::order {
namespace {

constexpr std::size_t kPathMax = 1 << 20, kTextMax = 1 << 18;
constexpr std::uint64_t kPointsMax = 100000;
constexpr rlim_t kSecondsMax = 20; // of processor time for a run
constexpr unsigned kWallSecondsMax = 600; // for one that waits for what is no part of the run

// What a run, in its process, tells the explorer.
struct Shared {
    bool has_ended, is_given_up, has_diverged;
    std::uint64_t points;
    std::size_t path_length;
    Search::Taken path[kPathMax];
    char text[kTextMax];
};

Shared *shared = nullptr;
Machine *machine_now = nullptr;

void put_text(const std::string &text)
{
    const std::size_t length = std::min(text.size(), kTextMax - 1);
    std::memcpy(shared->text, text.data(), length);
    shared->text[length] = '\0';
}

[[noreturn]] void on_signal(int number)
{
    Machine::Result result;
    result.failure = fmt::format("the subject died of signal {} ({}) in thread {}", number, strsignal(number),
                                 machine_now->running());
    machine_now->abandon();
    put_text(report_run(*machine_now, result));
    shared->has_ended = true;
    _exit(1);
}

[[noreturn]] void run_child(const ExploreRequest &request, KernelThreads &threads, Chooser &chooser, Search *search)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); // nothing stays behind of an explorer that is killed
    const struct rlimit seconds = {kSecondsMax, kSecondsMax};
    setrlimit(RLIMIT_CPU, &seconds);
    alarm(kWallSecondsMax);
    // Only one thread runs at a time: to hand over is quicker on one processor.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(std::max(sched_getcpu(), 0)), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) signal(number, on_signal);
    Machine machine(threads, request.rules);
    machine.keep_steps(kPointsMax);
    if (request.ignores_races) machine.ignore_races();
    machine_now = &machine;
    Blocks blocks(*request.subject);
    const auto result = machine.run(
        request.threads,
        [&](unsigned thread) {
            if (request.subject->begin_thread != nullptr) request.subject->begin_thread();
            request.scenario->thread(blocks, thread, request.threads);
            if (request.subject->end_thread != nullptr) request.subject->end_thread();
        },
        chooser);
    shared->points = result.points;
    shared->is_given_up = result.is_given_up;
    if (result.race || !result.failure.empty()) put_text(report_run(machine, result));
    if (search != nullptr) {
        shared->has_diverged = search->has_diverged();
        shared->path_length = std::min(search->path().size(), kPathMax);
        std::copy_n(search->path().begin(), shared->path_length, shared->path);
    }
    shared->has_ended = true;
    _exit(0);
}

// Empty if the run held.
std::string run(const ExploreRequest &request, KernelThreads &threads, Chooser &chooser, Search *search)
{
    shared->has_ended = shared->is_given_up = shared->has_diverged = false;
    shared->text[0] = '\0';
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return "the system refuses a process (fork): free some memory or processes";
    if (child == 0) run_child(request, threads, chooser, search);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (shared->has_diverged) return "runs do not repeat: the subject depends on something that is no choice here";
    if (shared->has_ended) return shared->text;
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
        return fmt::format("a thread does not end: {} s of processor time are up", kSecondsMax);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return fmt::format("the run has not ended in {} s: it waits in a call that hakmem-order does not know",
                           kWallSecondsMax);
    return fmt::format("the process of the run ended: status {:#x}", status);
}

std::unique_ptr<Chooser> random_chooser(const ExploreRequest &request, std::uint64_t seed, std::uint64_t points)
{
    if (seed % 2 == 0) return std::make_unique<Uniform>(request.bounds, seed);
    return std::make_unique<Pct>(request.bounds, seed, 2 + static_cast<unsigned>(seed / 2 % 3), points);
}

} // namespace

ExploreResult explore(const ExploreRequest &request)
{
    static KernelThreads threads;
    if (shared == nullptr) {
        void *start =
            mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) return {.failure = "no memory for the explorer"};
        shared = static_cast<Shared *>(start);
    }
    static bool has_begun = false;
    if (!request.scenario->is_first && !has_begun) {
        request.subject->free(request.subject->malloc(64));
        has_begun = true;
    }
    ExploreResult result;
    const auto begin = std::chrono::steady_clock::now();
    const auto is_time_up = [&] {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        return request.seconds > 0 && passed.count() > request.seconds;
    };
    const auto count = [&] {
        result.schedules++;
        result.points = std::max(result.points, shared->points);
        result.given_up += shared->is_given_up;
    };
    if (request.is_search) {
        Search search(request.bounds, false);
        do {
            result.failure = run(request, threads, search, &search);
            search.continue_from({shared->path, shared->path + shared->path_length});
            count();
            if (!result.failure.empty() || is_time_up()) return result;
        } while (search.next());
        result.is_complete = result.given_up == 0;
        return result;
    }
    // A first run without choices says how many points there are.
    Replay first({});
    result.failure = run(request, threads, first, nullptr);
    count();
    const std::uint64_t points = std::max<std::uint64_t>(shared->points, 1);
    for (std::uint64_t i = 0; i < request.schedules && result.failure.empty() && !is_time_up(); ++i) {
        result.seed = request.seed + i;
        const auto chooser = random_chooser(request, result.seed, points);
        result.failure = run(request, threads, *chooser, nullptr);
        count();
    }
    return result;
}

} // namespace stress::order
