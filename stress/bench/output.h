// The output of hakmem-bench. The only file that knows JSON.
#pragma once

#include <string>

#include "bench/cell.h"
#include "bench/row.h"
#include "bench/rss.h"

namespace bench {

std::string rows_text();  // for people, one line per row
std::string rows_json();  // for programs, one object per row

std::string result_json(const Row &row, const Plan &plan, double seconds);
std::string rss_json(const RssRow &row, const RssPlan &plan, const RssFigures &figures);
std::string cell_json(const CellPlan &plan, const CellFigures &figures);

// Writes to the file, or to stdout for "-". Returns what went wrong, or "".
std::string write_result(const std::string &path, const std::string &text);

}  // namespace bench
