#include "command/command.h"

namespace stress {
namespace {

constexpr Command kCommands[] = {
    {"show", "print a file of ops as text, or convert it", show_main},
    {"run", "run a file of ops as a scenario", run_main},
    {"record", "run a scenario and write its ops to a file, even when it crashes", record_main},
    {"capture", "run any program and write its calls of malloc and free to a trace", capture_main, true},
    {"shrink", "make a failing file of ops as small as possible", shrink_main},
    {"compare", "run the same ops on two mallocs and show where they differ", compare_main},
    {"all", "run every scenario, each in its own process; --soak TIME, --report DIR", all_main, true},
    {"speed", "time the loop that hakmem-bench has for larson, random-mixed or remote-free", speed_main},
    {"conform", "check what every malloc must do, with one directed test for each rule", conform_main},
    {"inject", "inject refused memory, a limited address space and signals into runs of each scenario", inject_main},
    {"merge", "join the folders of soaks that ran on several machines into one page", merge_main},
    {"report", "read a crash record of libhakmem: what happened, where, what the heap knows", report_main},
    {"probe", nullptr, probe_main},
    {"recording", nullptr, recording_main},
    {"trace", nullptr, trace_main},
    {"measure", nullptr, measure_main},
};

}  // namespace

const Command *command_find(const std::string &name)
{
    for (const Command &command : kCommands)
        if (name == command.name) return &command;
    return nullptr;
}

std::vector<std::string> command_names()
{
    std::vector<std::string> names;
    for (const Command &command : kCommands)
        if (command.purpose != nullptr) names.push_back(command.name);
    return names;
}

std::string commands_text()
{
    std::string text;
    for (const Command &command : kCommands) {
        if (command.purpose == nullptr) continue;
        std::string name = command.name;
        name.resize(16, ' ');
        text += name + command.purpose + "\n";
    }
    return text;
}

}  // namespace stress
