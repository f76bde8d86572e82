// record: runs a scenario in a child process and writes its ops to a file.
//
// The child is an ordinary run of the scenario whose seats also write to shared memory, so the parent knows what it did
// even if it crashes or hangs. Its schedule is that of any other run.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "engine/base/rng.h"
#include "engine/base/verdict.h"
#include "engine/run/execute.h"
#include "engine/run/options_parse.h"
#include "engine/subject/subject_load.h"
#include "program/program_file.h"
#include "program/run_log.h"

namespace stress {
namespace {

// For a run that is limited only by time.
constexpr std::uint64_t kTimedOpsMax = kProgramExpandedMax;

Program settings_of(const Options &options, std::uint64_t seed)
{
    Program program;
    program.threads = options.threads;
    program.seed = seed;
    program.schedule = options.schedule;
    program.check = options.check;
    program.strict = options.strict;
    program.laps = options.laps;
    program.ops_limit = options.seconds == 0 ? options.ops : 0;
    program.links_kept = true;
    program.allocator = allocator_named(options.allocator);
    return program;
}

std::string rule_of(const RunLog &log, const std::string &ending)
{
    if (log.ending().finished) return log.ending().rule;
    return ending == "exit 1" ? "hang" : ending; // the watchdog's exit
}

int write_recorded(const Arguments &arguments, const RunLog &log, const std::string &ending)
{
    Program program;
    const std::string fault = log.settings(program);
    if (!fault.empty()) return bad_input("the log of the run " + fault);
    program.ops = log.merged();
    program.rule = rule_of(log, ending);
    program.expected = log.ending().schedule;
    if (const std::string broken = links_fault(program.ops, program.threads); !broken.empty()) {
        write_text(STDERR_FILENO, "hakmem-stress: the links of this run do not tell its order (" + broken +
                                      "); they are counted again, and the schedule may differ\n");
        program.links_kept = false;
        program.expected = {};
        for (Op &op : program.ops) op.link = 0;
    }
    if (log.dropped() > 0) program.expected = {};
    const Text content = arguments.text ? program_print(program) : program_encode(program);
    if (std::string error = program_write(arguments.output, content); !error.empty()) {
        verdict_reached(program.rule.empty() ? "pass" : "fail");
        result_lost("-o: " + error);
        return kExitLost;
    }
    write_text(STDOUT_FILENO,
               "recorded " + std::to_string(program.ops.size()) + " ops of " + std::to_string(program.threads) +
                   " threads in " + arguments.output +
                   (program.rule.empty() ? "" : "; the run failed: " + program.rule) +
                   (log.dropped() > 0 ? "; " + std::to_string(log.dropped()) + " later ops did not fit" : "") + "\n");
    return program.rule.empty() ? 0 : 1;
}

} // namespace

int record_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    // Checked now, so that a run of an hour does not end with a recording that cannot be written.
    if (arguments.output == "-") return bad_input("-o: a recording goes to a file; name one");
    if (std::string fault = result_try(arguments.output); !fault.empty()) return bad_input("-o: " + fault);
    const int fd = run_log_file();
    if (fd < 0) return bad_input("cannot make a shared file for the log (memfd_create)");
    std::vector<std::string> words{"recording", std::to_string(fd)};
    words.insert(words.end(), arguments.rest.begin(), arguments.rest.end());
    const pid_t child = spawn_self(argv[0], words, false);
    if (child < 0) return bad_input("cannot start a process for the run");
    const std::string ending = ending_text(wait_for(child));
    if (ending == "exit 2") return 2; // it has said why
    if (ending == "exit 77") return 77;
    const RunLog log = RunLog::open(fd);
    if (!log.ok()) return ending.empty() ? 0 : bad_input("the run ended before its first op: " + ending);
    return write_recorded(arguments, log, ending);
}

int recording_main(int argc, char **argv)
{
    if (argc < 4) return bad_input("recording is for the program's own use");
    std::vector<char *> words{argv[0]};
    words.insert(words.end(), argv + 3, argv + argc);
    const int count = static_cast<int>(words.size());
    words.push_back(nullptr);
    const ParseOutcome parsed = options_parse(count, words.data());
    if (!parsed.run) {
        write_text(parsed.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, parsed.text);
        return parsed.exit_code;
    }
    Options options = parsed.options;
    if (options.repeat != 1) return bad_input("--repeat: one run is recorded; leave it out");
    if (options.ops == 0) options.ops = kTimedOpsMax;
    if (options.ops > kProgramOpsMax)
        return bad_input("--ops: at most " + std::to_string(kProgramOpsMax) + " can be recorded");
    const SubjectOutcome subject = subject_load(options.allocator, options.schedule == Schedule::Seeded, argv);
    if (!subject.ok) {
        write_text(STDERR_FILENO, subject.error);
        return 2;
    }
    const std::uint64_t seed = options.seed.has_value() ? *options.seed : seed_draw();
    Plan plan = scenario_find(options.scenario)->plan({options, seed, options.threads});
    RunLog log = RunLog::create(std::atoi(argv[2]), options.threads, options.ops / options.threads + 64);
    if (!log.ok()) return bad_input("no memory for the log of the run; ask for fewer --ops");
    log.set_settings(settings_of(options, seed));
    return execute({options, options.scenario, subject.support, seed,
                    options_reproduce(count, words.data(), options, seed), [&log](Run &run) { log.attach(run); },
                    [&log](Result &result) { log.finish(result); }},
                   plan);
}

} // namespace stress
