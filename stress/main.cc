// hakmem-stress: points a scenario at a malloc, judges every block, prints a verdict.
// Exit status: 0 pass, 1 fail, 2 bad input.
#include <fcntl.h>
#include <unistd.h>

#include "engine/crash.h"
#include "engine/monitor.h"
#include "engine/options.h"
#include "engine/progress.h"
#include "engine/registry.h"
#include "engine/result.h"
#include "engine/rng.h"
#include "engine/run.h"
#include "engine/subject_load.h"

namespace {

using namespace stress;

bool write_json(const std::string &path, const Result &result)
{
    if (path.empty()) return true;
    const bool to_stdout = path == "-";
    const int fd = to_stdout ? STDOUT_FILENO : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        write_text(STDERR_FILENO,
                   "hakmem-stress: --json: '" + path + "' could be written before the run, but not now\n");
        return false;
    }
    write_text(fd, result_json(result));
    if (!to_stdout) close(fd);
    return true;
}

int run_scenario(const Options &options, Support support, std::uint64_t seed, const std::string &reproduce)
{
    // JSON on stdout must parse: everything for people then goes to stderr.
    const int out = options.json_path == "-" ? STDERR_FILENO : STDOUT_FILENO;
    write_text(out, "seed " + std::to_string(seed) + "\n");

    Run run(options, seed, support);
    crash_line_install(run.failures(), seed, reproduce);
    Result result;
    {
        Monitor monitor(run.meter(), run.seats(), {out, options.watchdog_seconds, seed, reproduce});
        result = run.run(*scenario_find(options.scenario), seed, reproduce);
    }
    const bool written = write_json(options.json_path, result);
    write_text(out, result_summary(result));
    crash_line_remove();
    return result.passed() && written ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv)
{
    const ParseOutcome parsed = options_parse(argc, argv);
    if (!parsed.run) {
        write_text(parsed.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, parsed.text);
        return parsed.exit_code;
    }
    const SubjectOutcome subject = subject_load(parsed.options.allocator, argv);
    if (!subject.ok) {
        write_text(STDERR_FILENO, subject.error);
        return 2;
    }
    const std::uint64_t seed = parsed.options.seed.has_value() ? *parsed.options.seed : seed_draw();
    return run_scenario(parsed.options, subject.support, seed, options_reproduce(argc, argv, parsed.options, seed));
}
