// The results of a conformance run, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "conform/check.h"

namespace stress::conform {

struct Finding {
    const Check *check;
    Verdict verdict;
    double seconds;
};

struct Counts {
    int passed = 0, failed = 0, skipped = 0;
};

Counts count_findings(const std::vector<Finding> &findings);

std::string finding_line(const Finding &finding);
std::string counts_line(const Counts &counts);
std::string list_text();
std::string findings_json(const std::string &allocator, const std::string &library,
                          const std::vector<Finding> &findings);

}  // namespace stress::conform
