// The commands that make many runs, which campaign/ does, and the probe of a library.
#include "command/all.h"

#include <unistd.h>

#include "campaign/command.h"
#include "command/arguments.h"
#include "command/command.h"
#include "command/speed.h"
#include "conform/check.h"
#include "engine/base/build.h"
#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "engine/run/scenario.h"
#include "engine/subject/subject_load.h"
#include "engine/base/build_id.h"

namespace stress {

namespace {

std::vector<std::string> scenario_names()
{
    std::vector<std::string> names;
    for (const Scenario &scenario : scenarios()) names.push_back(scenario.name);
    return names;
}

std::vector<std::string> check_names()
{
    std::vector<std::string> names;
    for (const conform::Check *check : conform::all_checks()) names.push_back(check->id);
    return names;
}

// Of libc and of what cannot be read: none.
std::string library_build_id(const std::string &allocator)
{
    std::string fault;
    const std::string library = allocator == "system" ? "" : subject_library(allocator, fault);
    return library.empty() ? "" : file_build_id(library);
}

}  // namespace

int all_main(int argc, char **argv)
{
    CampaignDefaults defaults;
    defaults.scenarios = scenario_names();
    defaults.checks = check_names();
    defaults.loops = speed_scenarios();
    defaults.build_id = library_build_id;
    if (kSanitized && !kDirect) defaults.allocator = "system";
    return campaign_all(argc, argv, defaults);
}

// subject_probe starts it with the library preloaded.
int probe_main(int argc, char **argv)
{
    if (argc != 3) return bad_input("probe: name one allocator");
    const SubjectOutcome subject = subject_load(argv[2], false, argv);
    if (!subject.ok) write_text(STDERR_FILENO, subject.error);
    return subject.ok ? 0 : kExitBadInput;
}

int soak_main(int argc, char **argv, const Options &options)
{
    SoakRequest request;
    request.scenario = options.scenario;
    request.allocator = options.allocator;
    request.schedule = options.schedule == Schedule::Seeded ? "seeded" : "os";
    request.soak = options.soak;
    request.report_directory = options.report_directory;
    request.json_path = options.json_path;
    request.junit_path = options.junit_path;
    request.expect = options.expect;
    request.names = scenario_names();
    for (std::string &name : check_names()) request.names.push_back(std::move(name));
    request.seed = options.seed;
    request.seconds = options.seconds;
    request.fresh = options.fresh;
    request.build_id = library_build_id;
    return campaign_soak(argc, argv, request);
}

}  // namespace stress
