// `hakmem-stress merge`: the folders of soaks that ran on other machines, as one page. Workers share nothing while they
// run: each draws its own seeds (--shard) and leaves a folder, which may be cut anywhere.
#pragma once

#include <string>
#include <vector>

namespace stress {

struct MergeOptions {
    std::vector<std::string> directories; // the --report of each worker
    std::string out; // gets index.html, junit.xml and failures.ndjson
};

// Returns the exit status: 0 nothing failed and nothing is cut, 1 otherwise, 2 bad input, with a line on stderr.
int merge_run(const MergeOptions &options);

// The functions of the library, from the top, of the thread that crashed, as gdb printed them; at most three.
std::vector<std::string> merge_frames(const std::string &stack, const std::string &allocator);

} // namespace stress
