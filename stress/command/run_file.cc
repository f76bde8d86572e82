// run: a file of ops as a scenario. trace: the same for another process that reads the log.
#include <unistd.h>

#include <cstdlib>

#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "engine/base/progress.h"
#include "engine/run/execute.h"
#include "engine/run/options_parse.h"
#include "engine/subject/subject_load.h"
#include "engine/watch/watcher.h"
#include "program/program_file.h"
#include "program/run_log.h"
#include "program/trace_feed.h"

namespace stress {
namespace {

// What the file says about the schedule holds only for the same malloc and seed.
void expect_from_file(const Program &program, const Arguments &arguments, Options &options, std::uint64_t seed)
{
    options.expect_schedule = arguments.expect_schedule;
    if (options.expect_schedule.has_value() || !program.expects_schedule()) return;
    if (options.schedule != Schedule::Seeded || program.schedule != Schedule::Seeded || seed != program.seed) return;
    if (program.allocator.empty() || program.allocator == allocator_named(arguments.allocator)) {
        options.expect_schedule = program.expected;
        return;
    }
    write_text(STDERR_FILENO,
               "hakmem-stress: the schedule is not compared: the file was recorded on " + program.allocator + "\n");
}

int tries_main(int argc, char **argv, std::uint64_t tries)
{
    std::vector<std::string> words(argv + 1, argv + argc);
    words.insert(words.end(), {"--tries", "1"});
    for (std::uint64_t i = 1; i <= tries; ++i) {
        const pid_t child = spawn_self(argv[0], words, false);
        if (child < 0) return bad_input("cannot start a process for each try");
        const std::string ending = ending_text(wait_for(child));
        if (ending.empty()) continue;
        if (ending == "exit 2" || ending == "exit 77") return ending == "exit 2" ? 2 : 77;
        write_text(STDOUT_FILENO, "failed at try " + std::to_string(i) + " of " + std::to_string(tries) + "\n");
        return 1;
    }
    write_text(STDOUT_FILENO, "passed " + std::to_string(tries) + " tries\n");
    return 0;
}

int refuse_subject(const SubjectOutcome &subject)
{
    write_text(STDERR_FILENO, subject.error);
    return 2;
}

// The replay must hand out what the program's malloc did, block for block.
void judge_counts(const TraceFigures &figures, Result &result)
{
    if (!result.passed() || (result.blocks_allocated == figures.blocks && result.bytes_allocated == figures.bytes))
        return;
    result.failures.push_back({rule::kDiverged, "the trace has " + std::to_string(figures.blocks) + " blocks of " +
                                                    std::to_string(figures.bytes) +
                                                    " bytes, and the replay handed out " +
                                                    std::to_string(result.blocks_allocated) + " of " +
                                                    std::to_string(result.bytes_allocated)});
}

// Replays a trace while it is read, under the system's schedule.
int replay(const Arguments &arguments, int argc, char **argv)
{
    Program settings;
    TraceFigures figures;
    const std::string fault = trace_check(arguments.file, figures);
    if (!fault.empty()) return bad_input("'" + arguments.file + "' " + fault + "; name a file of ops, text or binary");
    const std::uint64_t harness_bytes = figures.slots * std::uint64_t{sizeof(Block) + sizeof(std::uint32_t)};
    if (harness_bytes > memory_cap_bytes())
        return bad_input("'" + arguments.file + "' has " + std::to_string(figures.slots) +
                         " blocks at one time, whose records alone take " + format_bytes(harness_bytes) +
                         "; this machine has too little memory available");
    settings.threads = figures.threads;
    settings.check = arguments.check;
    Options options = options_of(settings, arguments.allocator, arguments.strict);
    options.watchdog_seconds = arguments.watchdog_seconds;
    options.json_path = arguments.json_path;
    options.scenario = arguments.file;
    options.schedule = Schedule::Os;
    options.touch_pages = true;
    const std::uint64_t seed = arguments.seed.value_or(0);
    options.seed = seed;
    const SubjectOutcome subject = subject_load(options.allocator, false, argv);
    if (!subject.ok) return refuse_subject(subject);
    TraceFeed feed(arguments.file, arguments.check);
    Plan plan = feed.plan();
    Execution execution{options, arguments.file, subject.support, seed, options_reproduce(argc, argv, options, seed)};
    execution.before_run = [&feed](Run &run) { feed.start(run.seats()[0]->stop); };
    execution.after_run = [&figures](Result &result) { judge_counts(figures, result); };
    const int status = execute(execution, plan);
    return feed.fault().empty() ? status : bad_input("'" + arguments.file + "' " + feed.fault());
}

// Runs the file. If fd is not -1, it names another process's log, and the run writes to it.
int run(const Arguments &arguments, int argc, char **argv, char **argv_whole, int fd)
{
    Program program;
    const std::string fault = program_read(arguments.file, program);
    if (!fault.empty()) return bad_input(fault);
    if (arguments.schedule.has_value()) program.schedule = *arguments.schedule;
    program.check &= arguments.check;
    Options options = options_of(program, arguments.allocator, arguments.strict);
    options.watchdog_seconds = arguments.watchdog_seconds;
    options.json_path = arguments.json_path;
    options.scenario = arguments.file;
    const SubjectOutcome subject = subject_load(options.allocator, options.schedule == Schedule::Seeded, argv_whole);
    if (!subject.ok) return refuse_subject(subject);
    const std::uint64_t seed = arguments.seed.value_or(program.seed);
    options.seed = seed;
    if (fd < 0) expect_from_file(program, arguments, options, seed);
    std::string note;
    Plan plan = plan_of(program, note);
    if (!note.empty()) write_text(STDERR_FILENO, "hakmem-stress: '" + arguments.file + "': " + note + "\n");
    Execution execution{options, arguments.file, subject.support, seed, options_reproduce(argc, argv, options, seed)};
    if (fd < 0) return execute(execution, plan);

    std::string ignored;
    RunLog log = RunLog::create(fd, program.threads, repeats_expand(program.ops, ignored).size() + 16);
    if (!log.ok()) return bad_input("no memory for the log of the run; use a shorter file");
    execution.before_run = [&log](Run &started) { log.attach(started); };
    execution.after_run = [&log](Result &result) { log.finish(result); };
    return execute(execution, plan);
}

}  // namespace

int run_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    if (arguments.tries > 1) return tries_main(argc, argv, arguments.tries);
    const bool seeded = arguments.schedule == Schedule::Seeded;
    return trace_is(arguments.file) && !seeded ? replay(arguments, argc, argv) : run(arguments, argc, argv, argv, -1);
}

int trace_main(int argc, char **argv)
{
    if (argc < 4) return bad_input("trace is for the program's own use");
    std::vector<char *> words{argv[0], argv[1]};
    words.insert(words.end(), argv + 3, argv + argc);
    const int count = static_cast<int>(words.size());
    words.push_back(nullptr);
    const Arguments arguments = arguments_parse(count, words.data());
    if (!arguments.run) return arguments_refused(arguments);
    return run(arguments, count, words.data(), argv, std::atoi(argv[2]));
}

}  // namespace stress
