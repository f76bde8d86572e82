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

// arguments without the program's own name. first: what the shell does before, as "ulimit -v 1000; ".
SpawnResult spawn_stress(const std::vector<std::string> &arguments, const std::string &first = "");

// One that is there in every tree.
std::string a_subject();

// The directory of the canary libraries.
std::string canary_directory();

}  // namespace stress
