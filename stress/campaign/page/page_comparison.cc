// The first section: each scenario, each allocator beside the others.
#include <fmt/format.h>

#include <algorithm>

#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"

namespace stress {
namespace {

const char *kNoFigure = "<span class=\"none\">–</span>";

std::string ratio_cell(const std::optional<double> &value)
{
    return value.has_value() ? fmt::format("×{:.2f}", *value) : kNoFigure;
}

// At most seven characters wide: a card has little room.
std::string brief_bytes(std::uint64_t bytes)
{
    const double kib = static_cast<double>(bytes) / 1024, mib = kib / 1024, gib = mib / 1024;
    if (kib < 999.5) return fmt::format("{:.0f} KiB", kib);
    if (mib < 999.5) return fmt::format("{:.{}f} MiB", mib, mib < 99.95 ? 1 : 0);
    return fmt::format("{:.1f} GiB", gib);
}

std::string memory_cell(const std::optional<std::uint64_t> &bytes)
{
    return bytes.has_value() ? brief_bytes(*bytes) : kNoFigure;
}

std::string failed_mark(std::size_t failed)
{
    return failed == 0 ? "" : " <span class=\"badge fail\">✗ failed</span>";
}

std::string swatch(std::size_t index)
{
    return fmt::format("<i class=\"dot c{}\"></i>", index % kPageColours);
}

std::string runs_text(const ComparedTotal &total)
{
    const std::size_t passed = total.runs - total.failed - total.skipped - total.known;
    return total.failed != 0
               ? fmt::format("<span class=\"badge fail\">✗ {} of {}</span>", total.failed, total.failed + passed)
               : fmt::format("<span class=\"badge pass\">✓ {}</span>", passed);
}

std::string totals_table(const Comparison &comparison)
{
    std::string table = fmt::format(
        "<div class=\"card scroll\" role=\"region\" aria-label=\"All scenarios\" tabindex=\"0\"><table class=\"compared "
        "all\"><thead><tr><th scope=\"col\">all scenarios<br>×: to {}</th><th scope=\"col\">runs</th><th scope=\"col\" "
        "class=\"n\">ops/s</th><th scope=\"col\" class=\"n\">p99.9</th><th scope=\"col\" "
        "class=\"n\">memory</th></tr></thead>\n<tbody>\n",
        html_escape(comparison.baseline));
    std::size_t index = 0;
    for (const ComparedTotal &total : comparison.totals)
        table +=
            fmt::format("<tr><th scope=\"row\">{}{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
                        "class=\"n\">{}</td></tr>\n",
                        swatch(index++), html_escape(total.label), runs_text(total), ratio_cell(total.ratio),
                        ratio_cell(total.tail_ratio), memory_cell(total.memory_bytes));
    return table + "</tbody></table></div>\n";
}

// Three digits.
std::string brief_rate(double per_second)
{
    const char *unit = "";
    for (const char *next : {" k", " M", " G"}) {
        if (per_second < 999.5) break;
        per_second /= 1000;
        unit = next;
    }
    return fmt::format("{:.{}f}{}", per_second, per_second < 9.995 ? 2 : per_second < 99.95 ? 1 : 0, unit);
}

std::string rate_cell(const ComparedRow &row, double high, std::size_t index, bool is_baseline)
{
    if (!row.ops_per_second.has_value()) return kNoFigure;
    std::string text = "<b>" + brief_rate(*row.ops_per_second) + "</b>";
    if (row.ratio.has_value() && !is_baseline)
        text += fmt::format(" <small title=\"{:.2f} to {:.2f} over the rounds\">×{:.2f}</small>", *row.ratio_low,
                            *row.ratio_high, *row.ratio);
    return text + fmt::format("<span class=\"bar\"><i class=\"c{}\" style=\"width:{:.1f}%\"></i></span>",
                              index % kPageColours, std::max(1.0, 100 * *row.ops_per_second / high));
}

std::string tails_cell(const LatencyRow &latency)
{
    if (latency.count == 0) return kNoFigure;
    return nanoseconds_text(static_cast<double>(latency.p50)) + "<br><small>" +
           nanoseconds_text(static_cast<double>(latency.p999)) + "</small>";
}

// The most that the scenario held at one time: about the same for every allocator.
std::string live_text(const ComparedScenario &one)
{
    std::uint64_t live = 0;
    for (const ComparedRow &row : one.rows) live = std::max(live, row.live_bytes.value_or(0));
    return live == 0 ? "" : " <small>" + brief_bytes(live) + " live</small>";
}

std::string scenario_card(const Comparison &comparison, const ComparedScenario &one)
{
    double high = 1;
    for (const ComparedRow &row : one.rows) high = std::max(high, row.ops_per_second.value_or(0));
    std::string text = fmt::format(
        "<div class=\"card\"><table class=\"compared one\"><thead><tr><th scope=\"col\"><h3>{}{}</h3></th>{}<th scope=\"col\" "
        "class=\"n\">p50<br>p99.9</th><th scope=\"col\" class=\"n\">memory</th></tr></thead>\n<tbody>\n",
        html_escape(one.scenario), live_text(one),
        comparison.has_speed ? "<th scope=\"col\" class=\"n\">ops/s</th>" : "");
    std::size_t index = 0;
    for (const ComparedRow &row : one.rows) {
        const std::size_t colour = index++;
        if (row.runs == 0) continue;
        text += fmt::format("<tr><th scope=\"row\">{}{}{}</th>", swatch(colour), html_escape(row.label),
                            failed_mark(row.failed));
        if (row.skipped == row.runs) {
            text +=
                fmt::format("<td colspan=\"{}\" class=\"n none\">skipped</td></tr>\n", comparison.has_speed ? 3 : 2);
            continue;
        }
        if (comparison.has_speed)
            text += "<td class=\"n\">" + rate_cell(row, high, colour, row.label == comparison.baseline) + "</td>";
        text += "<td class=\"n\">" + tails_cell(row.tail) + "</td><td class=\"n\">" + memory_cell(row.memory_bytes) +
                "</td></tr>\n";
    }
    return text + "</tbody></table></div>\n";
}

// What the throughput is of, in one sentence.
std::string speed_explained(const Comparison &comparison)
{
    const std::string loops = html_escape(loop_scenarios(comparison));
    if (loops.empty()) return "It has the suite&#39;s own work for each call in it.";
    return fmt::format(
        "In {} it is that of malloc and free alone, in the loops of <code>ci/bench times</code> (rows {}){}.", loops,
        html_escape(loop_rows(comparison)),
        comparison.has_own_speed ? "; elsewhere, and in the mean, it has the suite&#39;s own work for each call in it"
                                 : "");
}

std::string explained(const Comparison &comparison)
{
    return fmt::format(
        "<p class=\"lead\">{}p50 and p99.9 are times of malloc (of realloc in a scenario that calls no malloc), {}. Memory is the peak of the checked run above the "
        "harness&#39;s own; live is what the scenario held. Of all scenarios: geometric means, and the sum of "
        "memory, where every malloc was measured.</p>\n",
        comparison.has_speed
            ? fmt::format("Throughput is of runs <b>without checks</b>: the median of the rounds; ×: to {} in the same "
                          "round. {} ",
                          html_escape(comparison.baseline), speed_explained(comparison))
            : "Throughput was <b>not measured</b>: every run had all checks; add <code>--speed</code>. ",
        comparison.tails_unchecked ? "without checks, one call in 61" : "in the checked runs");
}

} // namespace

std::string section_comparison(const PageData &data)
{
    const Comparison &comparison = data.comparison;
    if (comparison.scenarios.empty()) return "";
    std::string text = fmt::format("<section id=\"comparison\">\n<h2>{}</h2>\n",
                                   comparison.totals.size() > 1 ? "Side by side" : "By scenario");
    if (comparison.scenarios.size() > 1) text += totals_table(comparison);
    text += "<div class=\"grid\">\n";
    for (const ComparedScenario &one : comparison.scenarios) text += scenario_card(comparison, one);
    return text + "</div>\n" + explained(comparison) + "</section>\n";
}

} // namespace stress
