// The results of a conformance run, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "conform/check.h"
#include "engine/base/expect.h"

namespace stress::conform {

struct Finding {
    const Check *check;
    Verdict verdict;
    double seconds;
    // After a crash, a hang or too much memory: the calls in hand, and the stack of every thread.
    std::vector<std::string> evidence;
    std::string expected = {}; // why this failure is known; empty: it is not
    bool is_plain = false;     // it fails as plain_check() does, so what the check is about has not caused it
};

// Not in the list: the calls that most checks make, in a process in which nothing else happens. If it fails, so do they.
const Check &plain_check();

// Marks a failure that says the same as plain_check(), numbers aside. Its rule is then that of plain_check().
void finding_compare(Finding &finding, const Verdict &plain);

struct Counts {
    int passed = 0, failed = 0, skipped = 0, slow = 0, memory = 0, known = 0, outside = 0;
    int failed_quality = 0; // of failed: no standard says so
};

// Asks whether the failure, if it is one, is known.
void finding_expect(Finding &finding, const std::string &allocator, Expectations &expected);

Counts count_findings(const std::vector<Finding> &findings);

// No check failed or was stopped at the memory cap. Slow, skipped and inconclusive ones accuse nobody.
bool counts_pass(const Counts &counts);

// The checks that failed or were stopped at the memory cap, and were not expected to: a line; empty: none.
std::string failed_line(const std::vector<Finding> &findings);

// How many fail as plain_check() does: a line; empty: none.
std::string plain_line(const std::vector<Finding> &findings, const Verdict &plain);

// The verdict in one line; then the evidence, indented, and the command that repeats the check.
std::string finding_text(const Finding &finding, const std::string &repeat);
std::string counts_line(const Counts &counts);
std::string list_text();
// `repeat` and the check's id make the command that repeats it.
std::string findings_json(const std::string &allocator, const std::string &library, const std::string &repeat,
                          const std::vector<Finding> &findings);

// A test for each check, and a failing one for each line of --expect that is mended.
std::string findings_junit(const std::string &allocator, const std::string &repeat,
                           const std::vector<Finding> &findings, const std::vector<std::string> &mended);

} // namespace stress::conform
