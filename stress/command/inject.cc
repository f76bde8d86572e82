// inject: injects faults into runs of each scenario on the chosen malloc.
#include <unistd.h>

#include "command/command.h"
#include "engine/base/build.h"
#include "engine/base/progress.h"
#include "engine/run/scenario.h"
#include "engine/subject/subject_load.h"
#include "inject/inject.h"

namespace stress {

int inject_main(int argc, char **argv)
{
    std::vector<std::string> names;
    for (const Scenario &scenario : scenarios()) names.push_back(scenario.name);
    inject::Parsed parsed = inject::parse(argc, argv, kSanitized && !kDirect ? "system" : "hakmem", names);
    if (!parsed.run) {
        write_text(parsed.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, parsed.text);
        return parsed.exit_code;
    }
    // Seeded runs repeat only if addresses do.
    const bool fixed_layout = parsed.settings.kind != "signals";
    const SubjectOutcome subject = subject_load(parsed.settings.allocator, fixed_layout, argv);
    if (!subject.ok) {
        write_text(STDERR_FILENO, subject.error);
        return 2;
    }
    parsed.settings.support = subject.support;
    return inject::run_all(parsed.settings, STDOUT_FILENO);
}

}  // namespace stress
