// hakmem-stress: runs a scenario on a malloc, checks every block, and prints a verdict. Exit status: 0 pass, 1 fail, 2
// bad input, 3 a verdict whose results were lost, 77 skipped.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "campaign/report.h"
#include "command/all.h"
#include "command/command.h"
#include "engine/base/build.h"
#include "engine/base/progress.h"
#include "engine/base/rng.h"
#include "engine/base/verdict.h"
#include "engine/run/execute.h"
#include "engine/run/options_parse.h"
#include "engine/run/scenario.h"
#include "engine/subject/own_new.h"
#include "engine/subject/subject_load.h"

namespace {

using namespace stress;

// The driver of other runs lives long, so it reuses memory. A sanitizer has its own operator new.
void reuse_memory()
{
    if constexpr (!kSanitized) own_new_reuse();
}

// Why the report could not be written; checked before the run instead of after it.
std::string report_fault(const Options &options)
{
    if (options.fresh) return "hakmem-stress: --fresh: only a --soak has something to forget; leave it out\n";
    for (const auto &[name, value] :
         {std::pair{"--junit", &options.junit_path}, std::pair{"--expect", &options.expect}})
        if (!value->empty())
            return "hakmem-stress: " + std::string(name) +
                   ": a single run takes none; add --soak TIME, or run all --scenario " + options.scenario + "\n";
    if (options.report_directory.empty()) return "";
    const std::string fault = ReportDirectory(options.report_directory).open(false);
    return fault.empty() ? "" : "hakmem-stress: --report: " + fault + "\n";
}

void write_report(const Options &options, const Result &result)
{
    if (options.report_directory.empty()) return;
    const std::string fault = report_one(options.report_directory, result_json(result), result.reproduce);
    if (!fault.empty()) result_lost("--report: " + fault);
}

// Takes the numbers of standard streams that the parent has closed, which a file of results would get otherwise: a child
// whose streams are put there would lose it. Writing fails as before, and other programs find them closed.
void hold_streams()
{
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDONLY | O_CLOEXEC);
}

// Blocked, as a parent may leave them, they would end a run without a report, or the filter that fails system calls.
void faults_unblock()
{
    sigset_t faults;
    sigemptyset(&faults);
    for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGSYS}) sigaddset(&faults, number);
    sigprocmask(SIG_UNBLOCK, &faults, nullptr);
}

int run(int argc, char **argv)
{
    if (argc == 2 && std::string(argv[1]) == "--version") {
        write_text(STDOUT_FILENO, "hakmem-stress " HAKMEM_VERSION "\n");
        return 0;
    }
    if (const Command *command = argc > 1 ? command_find(argv[1]) : nullptr; command != nullptr) {
        if (command->drives_others) reuse_memory();
        return command->main(argc, argv);
    }
    ParseOutcome parsed = options_parse(argc, argv, command_names());
    if (!parsed.run) {
        // The list of scenarios and the help of the whole program include the commands.
        const bool whole = argc > 1 && (std::string(argv[1]) == "list" || argv[1][0] == '-');
        if (parsed.exit_code == 0 && whole) parsed.text += "\nCommands:\n" + commands_text();
        write_text(parsed.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, parsed.text);
        return parsed.exit_code;
    }
    Options &options = parsed.options;
    const Scenario *const scenario = scenario_find(options.scenario);
    if (options.check && options.repeat == 1) options.repeat = scenario->defaults.repeat;
    if (!options.soak.empty()) {
        reuse_memory();
        return soak_main(argc, argv, options);
    }
    if (const std::string fault = report_fault(options); !fault.empty()) {
        write_text(STDERR_FILENO, fault);
        return 2;
    }
    const SubjectOutcome subject = subject_load(options.allocator, options.schedule == Schedule::Seeded, argv);
    if (!subject.ok) {
        write_text(STDERR_FILENO, subject.error);
        return 2;
    }
    write_text(STDERR_FILENO, options.note);
    const std::uint64_t seed = options.seed.has_value() ? *options.seed : seed_draw();
    Plan plan = scenario->plan({options, seed, options.threads});
    Execution execution{options, options.scenario, subject.support, seed, options_reproduce(argc, argv, options, seed)};
    execution.plan_again = [&] { return scenario->plan({options, seed, options.threads}); };
    execution.after_run = [&](Result &result) { write_report(options, result); };
    return execute(execution, plan);
}

} // namespace

int main(int argc, char **argv)
{
    // If the parent left it ignored, the system reaps each child by itself and keeps no status: a wait for one fails.
    signal(SIGCHLD, SIG_DFL);
    hold_streams();
    faults_unblock();
    return verdict_status(run(argc, argv));
}
