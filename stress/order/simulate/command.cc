#include "order/simulate/command.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "order/malloc/report.h"
#include "order/simulate/perform.h"

namespace stress::order {
namespace {

constexpr std::uint64_t kPointsMax = 20000; // ten times as many as most runs have
constexpr std::uint64_t kPointsEnough = 150000; // of a program: a long one runs in fewer schedules
constexpr int kFailed = 1, kBadInput = 2;

// A subject may ask which processor it runs on, so each program has the same one.
void pin_to_first()
{
    cpu_set_t allowed, first;
    CPU_ZERO(&first);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    unsigned cpu = 0;
    while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &allowed)) cpu++;
    CPU_SET(cpu, &first);
    sched_setaffinity(0, sizeof first, &first);
}

void refuse(const std::string &text)
{
    fmt::print(stderr, "hakmem-order: {}\n", text);
}

// What the process of a program tells.
struct Told {
    bool has_ended;
    std::uint64_t schedules, given_up;
};

std::string again(const SimulateOptions &options, std::uint64_t seed)
{
    std::string text =
        fmt::format("  again: hakmem-order simulate --allocator {} --seed {} --programs 1", options.allocator, seed);
    if (options.schedules != SimulateOptions().schedules) text += fmt::format(" --schedules {}", options.schedules);
    if (options.ignores_races) text += " --ignore-races";
    return text + "\n";
}

int run_program(const SimulateOptions &options, std::uint64_t seed, const std::function<std::string(Subject &)> &load,
                Told &told)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin_to_first();
    const Program program = program_draw(seed);
    for (const auto &[name, value] : program.environment) setenv(name.c_str(), value.c_str(), 1);
    Subject subject;
    if (const std::string error = load(subject); !error.empty()) {
        refuse(error);
        return kBadInput;
    }
    Troubles troubles = program.troubles;
    troubles_now = &troubles;
    const Scenario scenario = program_scenario(program, subject);
    ExploreRequest request;
    request.subject = &subject;
    request.scenario = &scenario;
    request.before_run = program_before_run;
    request.threads = static_cast<unsigned>(program.threads.size()) + 1;
    request.bounds = program.bounds;
    request.ignores_races = options.ignores_races;
    request.stops_at_stores = program.stops_at_stores;
    request.schedules = options.schedules;
    request.seed = seed * 1000;
    request.points_max = kPointsMax;
    request.points_enough = kPointsEnough;
    if (options.prints) fmt::print("{}", program_text(program));
    const ExploreResult result = explore(request);
    if (!result.refused.empty()) {
        refuse(result.refused);
        return kBadInput;
    }
    told.schedules = result.schedules;
    told.given_up = result.given_up;
    if (options.prints)
        fmt::print("    {} schedules, {} given up, {} points\n", result.schedules, result.given_up, result.points);
    if (result.failure.empty()) return 0;
    fmt::print("FAILED: program {}: {}\n{}{}", seed, report_with_names(result.failure), program_text(program),
               again(options, seed));
    return kFailed;
}

// In a process of its own, since a malloc reads its options once, and since nothing of a program may reach the next one.
int run_in_child(const SimulateOptions &options, std::uint64_t seed, const std::function<std::string(Subject &)> &load,
                 Told &told)
{
    told = {};
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) {
        refuse("the system refuses a process (fork): free some memory or processes");
        return kBadInput;
    }
    if (child == 0) {
        const int status = run_program(options, seed, load, told);
        std::fflush(nullptr);
        told.has_ended = true;
        _exit(status);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (told.has_ended && WIFEXITED(status)) return WEXITSTATUS(status);
    fmt::print("FAILED: program {}: its process {} {}\n{}{}", seed,
               WIFSIGNALED(status) ? "died of signal" : "ended with status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), program_text(program_draw(seed)),
               again(options, seed));
    return kFailed;
}

} // namespace

CLI::App *simulate_options(CLI::App &app, SimulateOptions &options)
{
    const auto not_negative = [](const std::string &text) {
        return text.starts_with('-') ? text + " is below 0" : std::string();
    };
    CLI::App *simulate = app.add_subcommand("simulate", "a malloc, in random programs in which things go wrong");
    simulate->add_option("--allocator", options.allocator, "FILE: a shared library, compiled with -fsanitize=thread");
    simulate->add_option("--seed", options.seed, "of the first program; they count up")
        ->capture_default_str()
        ->check(not_negative);
    simulate->add_flag("--random", options.is_random, "the first seed comes from the clock");
    simulate->add_option("--programs", options.programs, "0: as --seconds says")
        ->capture_default_str()
        ->check(not_negative);
    simulate->add_option("--seconds", options.seconds, "of all programs together")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    simulate
        ->add_option("--schedules", options.schedules,
                     "random ones of each program, after one in which nothing is chosen")
        ->capture_default_str()
        ->check(not_negative);
    simulate->add_option("--failures", options.failures, "end when this number of programs has failed")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    simulate->add_flag("--ignore-races", options.ignores_races, "data races are no failures");
    simulate->add_flag("--print", options.prints, "each program");
    return simulate;
}

int simulate_run(const SimulateOptions &options, const std::function<std::string(Subject &)> &load)
{
    using clock = std::chrono::steady_clock;
    void *shared = mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        refuse("the system refuses memory (mmap): free some");
        return kBadInput;
    }
    Told &told = *static_cast<Told *>(shared);
    const std::uint64_t first =
        options.is_random
            ? static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) >> 20
            : options.seed;
    const auto begin = clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
    std::uint64_t run = 0, failed = 0, schedules = 0, given_up = 0;
    while (failed < options.failures && (options.programs == 0 ? passed() < options.seconds : run < options.programs)) {
        const int status = run_in_child(options, first + run, load, told);
        if (status == kBadInput) return kBadInput;
        failed += status != 0;
        schedules += told.schedules;
        given_up += told.given_up;
        run++;
    }
    fmt::print("{} programs from seed {}, {} schedules{}, in {:.0f} s: {} failed\n", run, first, schedules,
               given_up == 0 ? "" : fmt::format(" ({} given up: too many steps)", given_up), passed(), failed);
    return failed == 0 ? 0 : kFailed;
}

} // namespace stress::order
