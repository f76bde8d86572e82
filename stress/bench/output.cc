#include "bench/output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/status.h"
#include "bench/team.h"
#include "engine/base/file.h"

namespace bench {

using Json = nlohmann::ordered_json;

std::string rows_text()
{
    std::string text;
    for (const Row &row : rows())
        text += fmt::format("{:21} {:34} {} [{}]\n", row.name, row.shape, row.purpose, row.origin);
    text += "\nMemory rows, for hakmem-bench rss:\n";
    for (const RssRow &row : rss_rows()) text += fmt::format("{:21} {}\n", row.name, row.purpose);
    return text + cells_text();
}

std::string rows_json()
{
    Json run = Json::array(), rss = Json::array();
    for (const Row &row : rows())
        run.push_back({{"name", row.name},
                       {"shape", row.shape},
                       {"purpose", row.purpose},
                       {"origin", row.origin},
                       {"threads", row.threads},
                       {"threads_step", row.threads_step},
                       {"ops", row.ops},
                       {"bulk", row.bulk},
                       {"count", row.count}});
    for (const RssRow &row : rss_rows()) rss.push_back({{"name", row.name}, {"purpose", row.purpose}});
    Json grid = Json::object();
    for (const bool quick : {false, true}) {
        Json &of_form = grid[quick ? "quick" : "whole"] = Json::array();
        for (const CellPlan &plan : cells(quick)) of_form.push_back({plan.pattern, plan.size, plan.threads});
    }
    return Json{{"run", run}, {"rss", rss}, {"cells", grid}}.dump() + "\n";
}

std::string result_json(const Row &row, const Plan &plan, double seconds)
{
    const Json json{{"row", row.name},
                    {"threads", plan.threads},
                    {"ops", plan.ops},
                    {"warm_ops", plan.warm_ops},
                    {"seconds", seconds},
                    {"ns_per_pair", seconds * 1e9 / static_cast<double>(plan.ops)},
                    {"faults", timed_usage().faults},
                    {"rss_peak_kib", status_kib("VmHWM")},
                    {"seed", plan.seed}};
    return json.dump() + "\n";
}

std::string rss_json(const RssRow &row, const RssPlan &plan, const RssFigures &figures)
{
    Json kib = Json::object();
    for (const auto &[moment, figure] : figures) kib[moment] = figure;
    const Json json{{"row", row.name}, {"mib", plan.mib}, {"wait_ms", plan.wait_ms}, {"seed", plan.seed}, {"kib", kib}};
    return json.dump() + "\n";
}

std::string cell_json(const CellPlan &plan, const CellFigures &figures)
{
    const double pairs = static_cast<double>(figures.pairs);
    const Usage usage = timed_usage();
    Json json{{"pattern", plan.pattern},
              {"size", plan.size},
              {"threads", plan.threads},
              {"pairs", figures.pairs},
              {"nulls", figures.nulls},
              {"wall_ns", figures.seconds * 1e9 / pairs},
              {"cpu_ns", static_cast<double>(usage.cpu_ns) / pairs},
              {"faults", static_cast<double>(usage.faults) / pairs},
              {"peak_kib", status_kib("VmHWM")},
              {"last_kib", status_kib("VmRSS")}};
    if (plan.calls)
        json.update({{"worst_malloc_ns", figures.worst_malloc_ns}, {"worst_free_ns", figures.worst_free_ns}});
    return json.dump() + "\n";
}

std::string write_result(const std::string &path, const std::string &text)
{
    return stress::result_write(path, text);
}

}  // namespace bench
