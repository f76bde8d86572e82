// hakmem-stress conform: what every malloc must do, run on the malloc that this process has.
#pragma once

#include <string>
#include <vector>

namespace stress::conform {

struct ConformOptions {
    std::string allocator;          // as the report names it
    bool list = false;              // print the checks and run none
    std::vector<std::string> only;  // ids; empty: all
    std::string json_path;          // empty: none; -: stdout, and the text then goes to stderr
    double deadline_seconds = 10;   // of one check
};

// Runs each check in a child of its own and prints a line for each to `out`, then the counts.
// Returns the exit status: 0 nothing failed, 1 a check failed, 2 bad input, said in one line on stderr.
int conform_main(const ConformOptions &options, int out);

}  // namespace stress::conform
