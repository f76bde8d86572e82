// shrink: makes a failing file of ops as small as possible, and writes it with the command that repeats it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "campaign/command_words.h"
#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "command/shrink_keep.h"
#include "command/try.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "engine/subject/subject_load.h"
#include "engine/watch/outside.h"
#include "program/minimise.h"
#include "program/program_file.h"
#include "program/run_log.h"

namespace stress {
namespace {

// Deadline once the program is known to hang, since each hanging try takes this long.
constexpr double kHangSeconds = 0.4;
constexpr std::uint64_t kReportEveryNs = 1'000'000'000;
constexpr int kInconclusive = 77;

std::string plural(std::size_t count, const char *what)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// A leak shows as growth, as a bound that is passed, or as memory that is not returned at the end, depending on its
// size. All three count as one failure, because a smaller program may show the leak in another of these ways.
bool is_growth(const std::string &how)
{
    return how == rule::kPlateau || how == rule::kMemoryBound || how == rule::kMemoryReturn;
}

bool same_failure(const std::string &a, const std::string &b)
{
    return a == b || (is_growth(a) && is_growth(b));
}

// Whether the program fails in the intended way in one of the tries.
bool fails_as(Tries &tries, const Program &program, const std::string &how, std::uint64_t times)
{
    for (std::uint64_t i = 0; i < times; ++i)
        if (same_failure(tries.once(program).how, how)) return true;
    return false;
}

// Finds the first failure, and changes the program to the form that showed it. Prefers a seeded form, which always
// fails in the same way.
Verdict find_failure(Tries &tries, Program &program, std::uint64_t times)
{
    Verdict verdict;
    if (program.schedule == Schedule::Seeded) {
        verdict = tries.once(program);
        return verdict;
    }
    for (std::uint64_t i = 0; i < times && !verdict.failed(); ++i) verdict = tries.once(program);
    if (!verdict.failed()) return verdict;
    Program seeded = program;
    seeded.schedule = Schedule::Seeded;
    seeded.ops_limit = 0;
    for (std::uint64_t i = 0; i < 8; ++i, ++seeded.seed) {
        if (tries.once(seeded).how != verdict.how) continue;
        program = std::move(seeded);
        break;
    }
    return verdict;
}

bool is_directory(const std::string &path)
{
    struct stat status{};
    return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// The folder corpus/regress in a directory above the current one, or above the program, which is built inside its
// source tree.
std::string default_directory()
{
    char text[4096];
    for (const char *start : {"/proc/self/cwd", "/proc/self/exe"}) {
        const ssize_t length = readlink(start, text, sizeof text);
        std::string path(text, length > 0 ? static_cast<std::size_t>(length) : 0);
        for (; !path.empty(); path.resize(path.rfind('/')))
            if (is_directory(path + "/corpus/regress")) return path + "/corpus/regress";
    }
    return ".";
}

// rule-allocator, with a number appended if that name is taken.
std::string default_name(const std::string &directory, const std::string &how, const std::string &allocator)
{
    std::string stem = allocator.substr(allocator.rfind('/') + 1);
    stem = stem.substr(0, stem.find('.'));
    const std::string name = how + "-" + stem;
    for (int i = 1;; ++i) {
        const std::string numbered = i == 1 ? name : name + "-" + std::to_string(i);
        if (access((directory + "/" + numbered + ".ops").c_str(), F_OK) != 0 &&
            access((directory + "/" + numbered + ".txt").c_str(), F_OK) != 0)
            return numbered;
    }
}

// Runs the file in a fresh process, as `run` will, and returns how it ended and its schedule.
std::string run_afresh(const char *program_name, const std::string &path, const Arguments &arguments,
                       ScheduleMark &mark)
{
    const int fd = run_log_file();
    std::vector<std::string> words{"trace", std::to_string(fd), path, "--allocator", arguments.allocator, "--watchdog",
                                   "1"};
    if (arguments.strict.has_value()) words.push_back(*arguments.strict ? "--strict" : "--no-strict");
    const pid_t child = fd < 0 ? -1 : spawn_self(program_name, words, true);
    if (child < 0) return "exit 2";
    const std::string ending = ending_text(wait_for(child));
    const RunLog log = RunLog::open(fd);
    close(fd);
    if (!log.ok() || !log.ending().finished) return ending == "exit 1" ? "hang" : ending;
    mark = log.ending().schedule;
    return log.ending().rule;
}

// The comment at the head of the text form.
Text explained(const Program &program, const std::string &reproduce, const std::string &detail)
{
    const Text text = program_print(program);
    const auto first_line = std::find(text.begin(), text.end(), '\n') + 1;
    const std::string comment = "# rule: " + program.rule + (detail.empty() ? "" : ": " + detail) +
                                "\n# allocator: " + program.allocator + "\n# repeat with: " + reproduce + "\n";
    Text out(text.begin(), first_line);
    out.insert(out.end(), comment.begin(), comment.end());
    out.insert(out.end(), first_line, text.end());
    return out;
}

// The failure is known and was printed, but not what it shrank to.
int lost(const std::string &fault)
{
    verdict_reached("fail");
    result_lost("-o: " + fault);
    return kExitLost;
}

int write_result(Program program, const Verdict &verdict, const Arguments &arguments, const char *program_name)
{
    const std::string directory = arguments.output.empty() ? default_directory() : arguments.output;
    const std::string name =
        arguments.name.empty() ? default_name(directory, verdict.how, program.allocator) : arguments.name;
    const std::string path = directory + "/" + name;
    program.rule = verdict.how;
    program.strict = arguments.strict.has_value() ? arguments.strict : program.strict;
    std::replace(program.rule.begin(), program.rule.end(), ' ', '_');
    if (std::string fault = program_write(path + ".ops", program_encode(program)); !fault.empty()) return lost(fault);
    const std::string afresh = run_afresh(program_name, path + ".ops", arguments, program.expected);
    const std::string reproduce =
        words_quoted({program_name, "run", path + ".ops", "--allocator", arguments.allocator});
    for (const auto &[ending, content] :
         {std::pair{".ops", program_encode(program)}, std::pair{".txt", explained(program, reproduce, verdict.detail)}})
        if (std::string fault = program_write(path + ending, content); !fault.empty()) return lost(fault);
    constexpr std::size_t ops_shown_max = 40;
    if (program.ops.size() <= ops_shown_max) {
        const Text text = program_print(program);
        write_text(STDOUT_FILENO, std::string(text.begin(), text.end()));
    }
    if (afresh != verdict.how)
        write_text(STDOUT_FILENO, "shrink: in a fresh process it ends in " + (afresh.empty() ? "a pass" : afresh) +
                                      " instead of " + verdict.how + ": the failure depends on more than the ops\n");
    write_text(STDOUT_FILENO, "shrink: wrote " + path + ".ops and .txt; repeat with: " + reproduce + "\n");
    return 0;
}

// Whether the file fails in the same way in a fresh process; if not, says that shrinking would mislead. A child finds
// out, because all tries start from this process's heap, which must stay as a fresh one is.
bool fails_afresh(const char *program_name, const Arguments &arguments, const std::string &how)
{
    const pid_t child = fork();
    if (child == 0) {
        ScheduleMark mark;
        const std::string afresh = run_afresh(program_name, arguments.file, arguments, mark);
        if (same_failure(afresh, how)) _exit(0);
        write_text(STDOUT_FILENO, "cannot shrink " + arguments.file + ": in a fresh process it ends in " +
                                      (afresh.empty() ? "a pass" : afresh) + ", but in a forked child, which is " +
                                      "where shrink tries, in " + how + "\n");
        _exit(1);
    }
    int status = 0;
    return child < 0 || waitpid(child, &status, 0) != child || status == 0;
}

// What to do if a program that is said to fail passes. Each run under the seeded schedule is the same.
std::string missed(const Program &program, std::uint64_t times)
{
    if (program.rule.empty() || program.schedule == Schedule::Seeded) return "";
    return "; the file says that " + program.rule + " failed: if that depends on how its threads meet, --tries " +
           std::to_string(times * 20) + " runs it more often";
}

// Reports progress, at most once a second.
struct Reporter {
    std::size_t ops;
    std::uint32_t threads;
    std::uint64_t last_ns = 0;

    void say(const Program &program, std::uint64_t tries) const
    {
        write_text(STDOUT_FILENO, "shrink: " + std::to_string(ops) + " -> " + plural(program.ops.size(), "op") + ", " +
                                      std::to_string(threads) + " -> " + plural(program.threads, "thread") + ", " +
                                      std::to_string(tries) + " tries\n");
    }

    void now_and_then(const Program &program, std::uint64_t tries)
    {
        if (clock_ns() - last_ns < kReportEveryNs) return;
        last_ns = clock_ns();
        say(program, tries);
    }
};

}  // namespace

int shrink_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    Program program;
    if (std::string fault = program_read(arguments.file, program); !fault.empty()) return bad_input(fault);
    if (!arguments.output.empty()) // now, not after an hour of work
        if (std::string fault = directory_make(arguments.output); !fault.empty())
            return bad_input("-o: " + fault + "; name a directory that can be written to");
    if (arguments.name.find('/') != std::string::npos)
        return bad_input("--name: must be a name without a directory, not '" + arguments.name + "'; use -o");
    if (!arguments.keep.empty()) return shrink_keeping(std::move(program), arguments, argv[0]);
    const SubjectOutcome subject = subject_load(arguments.allocator, true, argv);
    if (!subject.ok) {
        write_text(STDERR_FILENO, subject.error);
        return 2;
    }

    const std::uint64_t end_ns = clock_ns() + static_cast<std::uint64_t>(arguments.seconds * 1e9);
    Tries tries({arguments.allocator, subject.support, arguments.strict});
    const std::uint64_t times = arguments.tries;
    const OutsideWatch outside;
    Verdict verdict = find_failure(tries, program, times);
    if (verdict.how == "SIGKILL") {
        write_text(STDOUT_FILENO, "shrink: " + outside.text() + "\n");
        return kInconclusive;
    }
    if (!verdict.failed()) {
        write_text(STDOUT_FILENO, "nothing to shrink: " + arguments.file + " passes on " + arguments.allocator +
                                      " in " + (tries.count == 1 ? "1 try" : std::to_string(tries.count) + " tries") +
                                      missed(program, times) + "\n");
        return 1;
    }
    if (program.schedule == Schedule::Seeded && !fails_afresh(argv[0], arguments, verdict.how)) return 1;
    write_text(STDOUT_FILENO, "shrink: it fails: " + verdict.how +
                                  (verdict.detail.empty() ? "" : ": " + verdict.detail) +
                                  (program.schedule == Schedule::Os ? "; under the system's schedule only\n" : "\n"));
    if (!program.rule.empty() && program.rule != verdict.how)
        write_text(STDOUT_FILENO,
                   "shrink: the file says that " + program.rule + " failed; it is shrunk to " + verdict.how + "\n");
    if (verdict.how == "hang") tries.settings.hang_seconds = kHangSeconds;
    program.allocator = allocator_named(arguments.allocator);
    program.expected = {};
    const std::uint64_t repeats = program.schedule == Schedule::Seeded ? 1 : times;
    Reporter reporter{program.ops.size(), program.threads};
    program = minimise(std::move(program),
                       {[&](const Program &trial) { return fails_as(tries, trial, verdict.how, repeats); },
                        [&](const Program &best) { reporter.now_and_then(best, tries.count); },
                        [end_ns] { return clock_ns() > end_ns; }});
    reporter.say(program, tries.count);
    if (clock_ns() > end_ns) write_text(STDOUT_FILENO, "shrink: the time is over; --seconds allows for more\n");
    bool is_last = false; // the verdict names a block of the program as it is now
    for (std::uint64_t i = 0; i < repeats && !is_last; ++i)
        if (const Verdict last = tries.once(program); same_failure(last.how, verdict.how))
            verdict = last, is_last = true;
    return write_result(std::move(program), verdict, arguments, argv[0]);
}

}  // namespace stress
