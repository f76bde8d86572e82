// The commands besides the scenarios.
#pragma once

#include <string>

namespace stress {

struct Command {
    const char *name;
    const char *purpose;  // nullptr: for the program's own use
    int (*main)(int argc, char **argv);
    bool drives_others = false;  // it may run for days, and only starts children
};

// nullptr when there is none of this name.
const Command *command_find(const std::string &name);

// A line for each, as `list` prints scenarios.
std::string commands_text();

int show_main(int argc, char **argv);
int run_main(int argc, char **argv);
int record_main(int argc, char **argv);
int shrink_main(int argc, char **argv);
int compare_main(int argc, char **argv);
int all_main(int argc, char **argv);
int conform_main(int argc, char **argv);
int inject_main(int argc, char **argv);
int report_main(int argc, char **argv);

// Run in a child of the program, with the number of a shared file to log to as the first argument: a scenario, a file.
int recording_main(int argc, char **argv);
int trace_main(int argc, char **argv);

}  // namespace stress
