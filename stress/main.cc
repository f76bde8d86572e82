// hakmem-stress: points a scenario at a malloc, judges every block, prints a verdict.
// Exit status: 0 pass, 1 fail, 2 bad input, 77 skipped.
#include <unistd.h>

#include "command/command.h"
#include "engine/execute.h"
#include "engine/options.h"
#include "engine/progress.h"
#include "engine/rng.h"
#include "engine/scenario.h"
#include "engine/subject_load.h"

namespace {

using namespace stress;

}  // namespace

int main(int argc, char **argv)
{
    if (const Command *command = argc > 1 ? command_find(argv[1]) : nullptr; command != nullptr) {
        return command->main(argc, argv);
    }
    ParseOutcome parsed = options_parse(argc, argv);
    if (!parsed.run) {
        // The list of scenarios and the help of the whole program name the commands too.
        const bool whole = argc > 1 && (std::string(argv[1]) == "list" || argv[1][0] == '-');
        if (parsed.exit_code == 0 && whole) parsed.text += "\nCommands:\n" + commands_text();
        write_text(parsed.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, parsed.text);
        return parsed.exit_code;
    }
    const Options &options = parsed.options;
    const SubjectOutcome subject = subject_load(options.allocator, options.schedule == Schedule::Seeded, argv);
    if (!subject.ok) {
        write_text(STDERR_FILENO, subject.error);
        return 2;
    }
    const std::uint64_t seed = options.seed.has_value() ? *options.seed : seed_draw();
    Plan plan = scenario_find(options.scenario)->plan({options, seed, options.threads});
    Execution execution{options, options.scenario, subject.support, seed, options_reproduce(argc, argv, options, seed)};
    return execute(execution, plan);
}
