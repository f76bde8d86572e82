// The commands besides the scenarios.
#pragma once

#include <string>
#include <vector>

namespace stress {

struct Command {
    const char *name;
    const char *purpose;  // nullptr: only for the program's own use
    int (*main)(int argc, char **argv);
    bool drives_others = false;  // may run for days, and only starts children
};

// nullptr if there is no command of this name.
const Command *command_find(const std::string &name);

// Those that are for a user.
std::vector<std::string> command_names();

// One line for each command, in the format in which `list` prints scenarios.
std::string commands_text();

int show_main(int argc, char **argv);
int run_main(int argc, char **argv);
int capture_main(int argc, char **argv);
int record_main(int argc, char **argv);
int shrink_main(int argc, char **argv);
int compare_main(int argc, char **argv);
int all_main(int argc, char **argv);
int conform_main(int argc, char **argv);
int inject_main(int argc, char **argv);
int merge_main(int argc, char **argv);
int report_main(int argc, char **argv);
int speed_main(int argc, char **argv);

// What the program runs in a child. probe_main loads the allocator that its argument names, runs nothing, and exits with
// 0 if that library can be judged. The two others run a scenario or a file; their first argument is the number of a shared
// file for the log.
int probe_main(int argc, char **argv);
int recording_main(int argc, char **argv);
int trace_main(int argc, char **argv);
int measure_main(int argc, char **argv); // command/keep.h

} // namespace stress
