// What a campaign prints for people: a line per run, a table at the end, the skips with their reasons.
#pragma once

#include <string>
#include <vector>

#include "campaign/record.h"
#include "campaign/soak_state.h"

namespace stress {

// "pass  larson on hakmem, os  12.30 M ops/s  ..."; for a failing run also its failures and the command that repeats
//        it.
std::string summary_line(const RunRecord &record);

// A row for each cell; each column is as wide as its content.
std::string summary_table(const std::vector<CampaignCell> &cells);

// JUnit XML: a test for each run, and a failing one for each line of --expect that is mended. The runs have labels.
std::string summary_junit(const std::vector<RunRecord> &runs, const std::vector<std::string> &mended);

// The same of a soak, which keeps only counts: a test for each cell.
std::string soak_junit(const std::vector<CampaignCell> &cells, const std::vector<std::string> &mended);

// Each skip with its reason; "no skips" if there is none.
std::string summary_skips(const std::vector<CampaignCell> &cells);

} // namespace stress
