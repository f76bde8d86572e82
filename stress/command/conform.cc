// conform: the directed checks of conform/, on the chosen malloc.
#include <unistd.h>

#include "command/arguments.h"
#include "command/command.h"
#include "conform/run.h"
#include "engine/base/progress.h"
#include "engine/run/scenario.h"
#include "engine/subject/subject_load.h"

namespace stress {

int conform_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    if (!arguments.list) {
        const SubjectOutcome subject = subject_load(arguments.allocator, false, argv);
        if (!subject.ok) {
            write_text(STDERR_FILENO, subject.error);
            return 2;
        }
    }
    conform::ConformOptions options;
    options.program = argv[0];
    options.allocator = arguments.allocator;
    options.list = arguments.list;
    options.only = arguments.only;
    options.json_path = arguments.json_path;
    options.junit_path = arguments.junit_path;
    options.expect_path = arguments.expect;
    options.shard = arguments.shard;
    for (const Scenario &scenario : scenarios()) options.scenarios.push_back(scenario.name);
    options.deadline_seconds = arguments.deadline_seconds;
    options.memory_cap_bytes = arguments.memory_cap_mib << 20;
    return conform::conform_main(options, STDOUT_FILENO);
}

}  // namespace stress
