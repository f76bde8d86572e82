// --seeds FILE: seeds that failed, in a file that a repository can hold. A campaign begins with those of its own runs, and adds
// what fails now. Nothing takes a line out but its readers: a seed that once failed stays a test.
//
// One run a line: SEED SCENARIO SCHEDULE RULES ALLOCATOR. RULES is what it failed by, with commas between, and only for
// readers. ALLOCATOR is hakmem, validate, system or the name of the library's file, without its folder: the rest of the line.
// Empty lines, and lines that begin with #, are comments. A file that is not there is made. Campaigns that run at once may add
// to one file; a run that stands there twice is made once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "campaign/record.h"
#include "campaign/soak_state.h"

namespace stress {

class KeptSeeds {
  public:
    // Returns what is wrong, with the line, or nothing; also if the file cannot be written. Empty path: no file.
    std::string open(const std::string &path);

    // The kept runs of these cells, in the order of the file: of each `stride` the one at `shard`.
    std::vector<FirstRun> runs_of(const std::vector<CampaignCell> &cells, std::uint64_t shard = 0,
                                  std::uint64_t stride = 1) const;

    // Adds this failed run to the file, unless it was kept already. Returns what is wrong, or nothing.
    std::string add(const RunRecord &record);

  private:
    struct Kept {
        std::uint64_t seed = 0;
        std::string scenario, schedule, allocator;
        bool operator==(const Kept &) const = default;
    };
    std::string path_;
    std::vector<Kept> kept_;
};

} // namespace stress
