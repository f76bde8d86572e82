// Runs hakmem-stress from a test. The test runner names the program in the environment.
#pragma once

#include <string>
#include <vector>

namespace stress {

struct SpawnResult {
    int exit_code = -1;  // -1: ended by a signal, or could not start
    std::string out;
    std::string err;
};

// `arguments` leaves out the program's name. `first` is shell text that runs before the program, such as "ulimit -v
// 1000; ".
SpawnResult spawn_stress(const std::vector<std::string> &arguments, const std::string &first = "");

// A subject that exists in every tree.
std::string a_subject();

// The directory of the canary libraries.
std::string canary_directory();

}  // namespace stress
