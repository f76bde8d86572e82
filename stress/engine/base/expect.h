// --expect FILE: failures that are known. They do not fail the run; one that no longer comes does, so that the file stays
// true.
//
// One failure a line: NAME [ALLOCATOR] RULE # REASON. NAME is a scenario or a check, RULE what it fails by, or * for any
// rule. RULE? is of a failure that comes by chance: it is known when it comes, and not mended when it does not.
// ALLOCATOR is as given to --allocator, or the end of its path; without it the line holds for all. The reason must be
// there. Empty lines, and lines that begin with #, are comments.
#pragma once

#include <string>
#include <vector>

namespace stress {

class Expectations {
  public:
    // `names`: all that a line may name. Returns what is wrong, with the line, or nothing. Empty path: no file.
    std::string read(const std::string &path, const std::vector<std::string> &names);
    std::string parse(const std::string &path, const std::string &text, const std::vector<std::string> &names);

    // NAME was judged on this allocator and failed by these rules; none: it passed. Returns the reason if every rule is
    // known, and nothing otherwise.
    std::string judge(const std::string &name, const std::string &allocator, const std::vector<std::string> &rules);

    // For runs that an earlier process judged: some failure of NAME on this allocator was known (`came`), or none was.
    void recall(const std::string &name, const std::string &allocator, bool came);

    // A line for each known failure that was judged and never came.
    std::vector<std::string> mended() const;

  private:
    struct Known {
        std::string place, name, allocator, rule, reason;
        bool by_chance = false, judged = false, came = false;
    };
    std::vector<Known> known_;
};

} // namespace stress
