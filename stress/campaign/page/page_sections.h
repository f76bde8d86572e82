// The parts of the page, each a <section>.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "campaign/compare/comparison.h"
#include "campaign/page/figures.h"
#include "campaign/page/page.h"

namespace stress {

// What the sections are made from. The pointers point into the list of runs.
struct PageData {
    const ReportHeader &header;
    const std::vector<RunRecord> &runs;
    Comparison comparison;
    Runs newest; // checked, of each scenario, allocator and schedule, in the campaign's order
    std::vector<std::string> scenarios; // in that order
    std::vector<std::string> allocators; // labels, in the order of their colours
    std::map<std::string, std::string> labels; // of each allocator
};

// Failed runs of one malloc in one scenario by the same rules, newest first. The section of failures has a card for each, with the
// anchor "failure" and the index.
struct FailureGroup {
    std::string label, scenario, rules, expected;
    std::vector<const RunRecord *> runs;
};

// By malloc, then by scenario. Known failures come last, results that cannot be read first.
std::vector<FailureGroup> failure_groups(const PageData &data);

// The label of the malloc that the checks ran on, and the anchor of one of their findings on the page.
std::string directed_label(const PageData &data, const DirectedChecks &checks);
std::string directed_anchor(const PageData &data, const DirectedChecks &checks, const DirectedFinding &finding);

std::string verdict_text(const PageData &data); // "2 of 4 mallocs fail: a, b"
std::string section_headline(const PageData &data);
// The figures in which this malloc is worst against the baseline, for the headline. Empty if it is never worse, or has no rival.
std::string losses_brief(const PageData &data, const std::string &label);
std::string section_directed(const PageData &data);
std::string section_skips(const PageData &data); // empty if there are none
std::string section_comparison(const PageData &data);
std::string section_surface(const PageData &data); // empty if there is none
std::string section_failures(const PageData &data);
std::string section_runs(const PageData &data);
std::string section_memory(const PageData &data);
std::string section_latency(const PageData &data);
std::string section_about(const PageData &data);

// "✓ pass", "✗ fail", "– skip".
std::string badge(RunVerdict verdict);
// A command, which a click selects whole.
std::string command_box(const std::string &text);
// The schedule, and what the run was for if not the verdict.
std::string how_run(const RunRecord &run);

} // namespace stress
