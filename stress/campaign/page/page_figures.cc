// The sections with figures: memory, latency. Under each figure is a table of its values.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"

namespace stress {
namespace {

// Leaves out skipped runs, which have nothing to draw. Orders by schedule, so that runs to be compared are together.
Runs runs_of(const PageData &data, const std::string &scenario)
{
    std::set<std::string> schedules;
    for (const RunRecord *run : data.newest) schedules.insert(run->schedule);
    Runs runs;
    for (const std::string &schedule : schedules)
        for (const RunRecord *run : data.newest)
            if (run->scenario == scenario && run->schedule == schedule && run->verdict != RunVerdict::Skip)
                runs.push_back(run);
    return runs;
}

// The scale of a scenario's memory figures under one schedule.
double high_under(const Runs &runs, const std::string &schedule)
{
    double high = 0;
    for (const RunRecord *run : runs)
        if (run->schedule == schedule) high = std::max(high, memory_high(*run));
    return high;
}

using Columns = std::vector<std::string>;

// Every row begins with the allocator and the schedule; `cells` gives the others, as HTML.
template <typename Cells>
std::string figure_table(const std::string &scenario, const Runs &runs, const Columns &columns, Cells cells)
{
    std::string table = fmt::format("<details><summary>Table</summary><div class=\"scroll\" role=\"region\" "
                                    "aria-label=\""
                                    "Figures of {}\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">allocator</th>"
                                    "<th scope=\"col\">schedule</th>",
                                    html_escape(scenario));
    for (const std::string &column : columns) table += "<th scope=\"col\" class=\"n\">" + column + "</th>";
    table += "</tr></thead><tbody>\n";
    for (const RunRecord *run : runs)
        for (const Columns &row : cells(*run)) {
            table += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td>", html_escape(run->label),
                                 html_escape(run->schedule));
            for (const std::string &cell : row) table += "<td class=\"n\">" + cell + "</td>";
            table += "</tr>\n";
        }
    return table + "</tbody></table></div></details>\n";
}

std::string nothing(const char *what)
{
    return fmt::format("<p class=\"none\">{}</p>\n", what);
}

std::string bound_text(const RunRecord &run)
{
    return run.memory_bound_bytes.value_or(0) == 0 ? "<span class=\"none\">not judged</span>"
                                                   : html_bytes(run.memory_bound_bytes);
}

std::vector<Columns> latency_rows(const RunRecord &run)
{
    std::vector<Columns> rows;
    for (const auto &[call, latency] : {std::pair{"malloc", &run.malloc_ns}, std::pair{"free", &run.free_ns},
                                        std::pair{"realloc", &run.realloc_ns}}) {
        Columns row{call};
        if (latency->count == 0) {
            row.insert(row.end(), 6, "<span class=\"none\">not measured</span>");
        } else {
            row.push_back(html_count(latency->count));
            for (std::uint64_t value : {latency->p50, latency->p90, latency->p99, latency->p999, latency->max})
                row.push_back(nanoseconds_text(static_cast<double>(value)));
        }
        rows.push_back(row);
    }
    return rows;
}

}  // namespace

std::string section_memory(const PageData &data)
{
    std::string text =
        "<section id=\"memory\">\n<h2>Memory over time</h2>\n<p class=\"lead\">Resident memory against the bytes "
        "that the "
        "scenario holds. The area between is what the allocator keeps beyond that: free blocks, its own records, and "
        "what the process had before the first op. Under one schedule, a scenario's figures share their scale.</p>\n<ul "
        "class=\"legend\"><li><i class=\"rss\"></i>resident</li><li><i "
        "class=\"live\"></i>live (dotted)</li><li><i class=\"rss area\"></i>between</li></ul>\n";
    std::size_t number = 0;
    for (const std::string &scenario : data.scenarios) {
        const Runs runs = runs_of(data, scenario);
        text += fmt::format("<figure class=\"card\" style=\"margin-top:16px\"><figcaption><h3>{}</h3></figcaption>\n",
                            html_escape(scenario));
        if (runs.empty()) {
            text += nothing("skipped") + "</figure>\n";
            continue;
        }
        text += "<div class=\"panels\">\n";
        for (const RunRecord *run : runs) {
            const std::string id = fmt::format("mem{}", number++);
            std::string figure = figure_memory(id, *run, high_under(runs, run->schedule));
            if (figure.empty()) figure = nothing("not measured over time");
            text += fmt::format("<div class=\"panel\"><h4>{} · {}</h4>\n{}</div>\n", html_escape(run->label),
                                html_escape(run->schedule), figure);
        }
        text += "</div>\n";
        text += figure_table(scenario, runs, {"peak live", "peak RSS", "end RSS", "bound", "VMAs at peak"},
                             [](const RunRecord &run) {
                                 return std::vector<Columns>{
                                     {html_bytes(run.peak_live_bytes), html_bytes(run.peak_rss_bytes),
                                      html_bytes(run.end_rss_bytes), bound_text(run), html_count(run.vma_count_peak)}};
                             });
        text += "</figure>\n";
    }
    return text + "</section>\n";
}

std::string section_latency(const PageData &data)
{
    std::string text =
        "<section id=\"latency\">\n<h2>Latency in the checked runs</h2>\n<p class=\"lead\">Time of one call on a logarithmic scale; "
        "farther "
        "left is faster. From the large dot to the small: p50, p90, p99, p99.9; the upright line is the maximum.</p>\n"
        "<ul class=\"legend\"><li><i class=\"dot c0\"></i>malloc</li><li><i class=\"dot c2\"></i>free</li></ul>\n<div "
        "class=\"grid\">\n";
    std::size_t number = 0;
    for (const std::string &scenario : data.scenarios) {
        const Runs runs = runs_of(data, scenario);
        text += fmt::format("<figure class=\"card\"><figcaption><h3>{}</h3></figcaption>\n", html_escape(scenario));
        if (runs.empty()) {
            text += nothing("skipped") + "</figure>\n";
            continue;
        }
        const std::string figure = figure_latency(fmt::format("lat{}", number++), runs);
        text += figure.empty() ? nothing("not measured") : figure;
        text += figure_table(scenario, runs, {"call", "calls", "p50", "p90", "p99", "p99.9", "max"}, latency_rows);
        text += "</figure>\n";
    }
    return text + "</div>\n</section>\n";
}

}  // namespace stress
