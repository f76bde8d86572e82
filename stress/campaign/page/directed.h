// The result of `hakmem-stress conform --json` for one malloc, as the page shows it: what a standard says and what only
// quality asks for, apart.
#pragma once

#include <string>
#include <vector>

namespace stress {

struct DirectedFinding {
    std::string id, detail, rule, repeat;
    bool is_quality = false; // no standard says so
    bool is_known = false; // by --expect
};

struct DirectedCounts {
    std::size_t passed = 0, failed = 0;
};

struct DirectedChecks {
    std::string allocator, label;
    DirectedCounts standard, quality;
    std::vector<DirectedFinding> failed; // also those that are known
    std::vector<DirectedFinding> skipped; // detail: why; also slow and inconclusive ones
    std::string fault; // why the file is no result; empty: it is one
};

// Whether a check's rule is one of quality.
bool rule_is_quality(const std::string &rule);

DirectedChecks directed_read(const std::string &text);

} // namespace stress
