// Speed, tails and memory: each scenario, each allocator beside the others.
#include <fmt/format.h>

#include <algorithm>

#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"
#include "engine/run/scenario.h"

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

// What is worse than the baseline by more than runs of one malloc differ: slower in every round, and by a twentieth at
// least; p99.9 half as long again; a tenth more memory, and a MiB.
struct Losses {
    bool speed = false, tail = false, memory = false;
};

constexpr double kSlower = 0.95, kLater = 1.5, kLarger = 1.1;
constexpr double kLaterNs = 100, kLargerBytes = 1 << 20;

Losses losses_of(const ComparedRow &row, const ComparedRow &base)
{
    Losses losses;
    losses.speed = row.ratio.has_value() && *row.ratio < kSlower && *row.ratio_high < 1;
    const auto tail = static_cast<double>(row.tail.p999), base_tail = static_cast<double>(base.tail.p999);
    losses.tail =
        row.tail.count != 0 && base.tail.count != 0 && tail >= kLater * base_tail && tail >= base_tail + kLaterNs;
    const auto bytes = static_cast<double>(row.memory_bytes.value_or(0)),
               base_bytes = static_cast<double>(base.memory_bytes.value_or(UINT64_MAX));
    losses.memory = bytes >= kLarger * base_bytes && bytes >= base_bytes + kLargerBytes;
    return losses;
}

std::string marked(const std::string &text, bool is_loss, const char *why)
{
    return is_loss ? fmt::format("<span class=\"loss\" title=\"{}\">{} ▾</span>", why, text) : text;
}

const ComparedRow *row_of(const ComparedScenario &one, const std::string &label)
{
    for (const ComparedRow &row : one.rows)
        if (row.label == label) return &row;
    return nullptr;
}

std::string times(double ratio)
{
    return ratio < 9.995 ? fmt::format("×{:.2f}", ratio) : fmt::format("×{:.0f}", ratio);
}

using Loss = std::pair<double, std::string>; // how bad, from 1 up, and what to show

// `most`: how many are shown; the others are counted.
std::string worst_first(std::vector<Loss> losses, std::size_t most = SIZE_MAX)
{
    std::sort(losses.begin(), losses.end(), [](const Loss &a, const Loss &b) {
        return std::make_pair(b.first, a.second) < std::make_pair(a.first, b.second);
    });
    std::string text;
    for (std::size_t i = 0; i < std::min(most, losses.size()); ++i)
        text += (text.empty() ? "" : ", ") + losses[i].second;
    if (losses.size() > most) text += fmt::format(" <span class=\"name\">and {} more</span>", losses.size() - most);
    return text.empty() ? "none" : text;
}

struct LossLists {
    std::vector<Loss> speed, tail, memory;
};

LossLists losses_of_malloc(const Comparison &comparison, const std::string &label)
{
    LossLists lists;
    for (const ComparedScenario &one : comparison.scenarios) {
        const ComparedRow *row = row_of(one, label), *base = row_of(one, comparison.baseline);
        if (row == nullptr || base == nullptr) continue;
        const Losses losses = losses_of(*row, *base);
        const auto entry = [&](double bad, double ratio) {
            return Loss(bad, fmt::format("<span class=\"name\">{} {}</span>", html_escape(one.scenario), times(ratio)));
        };
        if (losses.speed) lists.speed.push_back(entry(1 / *row->ratio, *row->ratio));
        if (losses.tail) {
            const double ratio =
                static_cast<double>(row->tail.p999) / static_cast<double>(std::max<std::uint64_t>(base->tail.p999, 1));
            lists.tail.push_back(entry(ratio, ratio));
        }
        if (losses.memory) {
            const double ratio = static_cast<double>(*row->memory_bytes) /
                                 static_cast<double>(std::max<std::uint64_t>(*base->memory_bytes, 1));
            lists.memory.push_back(entry(ratio, ratio));
        }
    }
    return lists;
}

// Where each malloc is worse than the baseline, by name.
std::string losses_list(const Comparison &comparison)
{
    std::string text;
    for (const ComparedTotal &total : comparison.totals) {
        if (total.label == comparison.baseline) continue;
        const LossLists lists = losses_of_malloc(comparison, total.label);
        text += fmt::format("<dt class=\"name\">{}</dt><dd>{}<b>p99.9:</b> {}<br><b>memory:</b> {}</dd>\n",
                            html_escape(total.label),
                            comparison.has_speed ? "<b>speed:</b> " + worst_first(lists.speed) + "<br>" : "",
                            worst_first(lists.tail), worst_first(lists.memory));
    }
    if (text.empty()) return "";
    return fmt::format(
        "<h3 class=\"apart\">Where it is worse than {}, the worst first</h3>\n<dl class=\"card losses\">\n{}</dl>\n",
        html_escape(comparison.baseline), text);
}

std::string total_cell(const std::optional<double> &ratio, bool is_baseline, bool is_loss)
{
    return is_baseline && ratio.has_value() ? "1" : marked(ratio_cell(ratio), is_loss, "worse");
}

std::string totals_table(const Comparison &comparison)
{
    std::string table = fmt::format(
        "<div class=\"card scroll\" role=\"region\" aria-label=\"All scenarios\" tabindex=\"0\"><table class=\"compared "
        "all\"><thead><tr><th scope=\"col\">all scenarios<br>×: to {}</th><th scope=\"col\">runs</th><th scope=\"col\" "
        "class=\"n\">speed<br>↑ more is better</th><th scope=\"col\" class=\"n\">p99.9<br>↓ less is better</th><th "
        "scope=\"col\" class=\"n\">memory<br>↓ less is better</th></tr></thead>\n<tbody>\n",
        html_escape(comparison.baseline));
    std::optional<std::uint64_t> base_bytes;
    for (const ComparedTotal &total : comparison.totals)
        if (total.label == comparison.baseline) base_bytes = total.memory_bytes;
    std::size_t index = 0;
    for (const ComparedTotal &total : comparison.totals) {
        const bool is_baseline = total.label == comparison.baseline;
        const bool large = total.memory_bytes.has_value() && base_bytes.has_value() &&
                           static_cast<double>(*total.memory_bytes) >= kLarger * static_cast<double>(*base_bytes);
        table +=
            fmt::format("<tr><th scope=\"row\">{}{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
                        "class=\"n\">{}</td></tr>\n",
                        swatch(index++), html_escape(total.label), runs_text(total),
                        total_cell(total.ratio, is_baseline, total.ratio.value_or(1) < kSlower),
                        total_cell(total.tail_ratio, is_baseline, total.tail_ratio.value_or(1) >= kLater),
                        marked(memory_cell(total.memory_bytes), large, "more"));
    }
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

// The baseline has its rate, the others their ratio to it: a ratio is of runs that follow each other, and the median of a
// malloc's rates over all rounds may say otherwise on a machine that is busy now and then.
std::string rate_cell(const ComparedRow &row, double high, std::size_t index, bool is_baseline, bool is_loss)
{
    const bool by_ratio = row.ratio.has_value() && !is_baseline;
    if (!row.ops_per_second.has_value()) return kNoFigure;
    std::string text =
        by_ratio ? marked(fmt::format("<b>×{:.2f}</b>", *row.ratio), is_loss, "slower") +
                       (*row.ratio_low != *row.ratio_high
                            ? fmt::format("<br><small>{:.2f} to {:.2f}</small>", *row.ratio_low, *row.ratio_high)
                            : "")
                 : "<b>" + brief_rate(*row.ops_per_second) + "</b><br><small>calls a second</small>";
    if (!row.ratio.has_value()) return text;
    return text + fmt::format("<span class=\"bar\"><i class=\"c{}\" style=\"width:{:.1f}%\"></i></span>",
                              index % kPageColours, std::max(1.0, 100 * *row.ratio / high));
}

std::string tails_cell(const LatencyRow &latency, bool is_loss)
{
    if (latency.count == 0) return kNoFigure;
    return nanoseconds_text(static_cast<double>(latency.p50)) + "<br><small>" +
           marked(nanoseconds_text(static_cast<double>(latency.p999)), is_loss, "later") + "</small>";
}

// What bug the scenario is likely to find.
std::string purpose_text(const std::string &name)
{
    const Scenario *scenario = scenario_find(name);
    return scenario == nullptr ? "" : "<p class=\"lead\">" + html_escape(scenario->purpose) + "</p>\n";
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
    for (const ComparedRow &row : one.rows) high = std::max(high, row.ratio.value_or(0));
    std::string text = fmt::format(
        "<div class=\"card\"><h3><span class=\"name\">{}</span>{}</h3>\n{}<table class=\"compared one\"><thead><tr><th "
        "scope=\"col\">malloc</th>{}<th scope=\"col\" class=\"n\">p50<br>p99.9 ↓</th><th scope=\"col\" "
        "class=\"n\">memory ↓</th></tr></thead>\n<tbody>\n",
        html_escape(one.scenario), live_text(one), purpose_text(one.scenario),
        comparison.has_speed ? "<th scope=\"col\" class=\"n\">speed ↑</th>" : "");
    const ComparedRow *base = row_of(one, comparison.baseline);
    std::size_t index = 0;
    for (const ComparedRow &row : one.rows) {
        const std::size_t colour = index++;
        if (row.runs == 0) continue;
        text += fmt::format("<tr><th scope=\"row\">{}{}{}</th>", swatch(colour), html_escape(row.label),
                            failed_mark(row.failed));
        if (row.skipped == row.runs) {
            text += fmt::format("<td colspan=\"{}\" class=\"n none\"><a href=\"#skips\">skipped</a></td></tr>\n",
                                comparison.has_speed ? 3 : 2);
            continue;
        }
        const bool is_baseline = row.label == comparison.baseline;
        const Losses losses = is_baseline || base == nullptr ? Losses() : losses_of(row, *base);
        if (comparison.has_speed)
            text += "<td class=\"n\">" + rate_cell(row, high, colour, is_baseline, losses.speed) + "</td>";
        text += "<td class=\"n\">" + tails_cell(row.tail, losses.tail) + "</td><td class=\"n\">" +
                marked(memory_cell(row.memory_bytes), losses.memory, "more") + "</td></tr>\n";
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
        "<p class=\"lead\">▾ marks what is worse than {}: slower in each round and by 5% at least, p99.9 half as long again, 10% "
        "more memory. {}p50 and p99.9 are times of malloc (of realloc in a scenario that calls no malloc), {}. Memory is the peak of the checked run above the "
        "harness&#39;s own; live is what the scenario held. Of all scenarios: geometric means, and the sum of "
        "memory, where every malloc was measured.</p>\n",
        html_escape(comparison.baseline),
        comparison.has_speed
            ? fmt::format(
                  "Speed is of runs <b>without checks</b>, in calls a second: the median of the rounds. × is the "
                  "median of the ratios to {} within a round, with the least and the greatest. {} ",
                  html_escape(comparison.baseline), speed_explained(comparison))
            : "Speed was <b>not measured</b>: every run had all checks; add <code>--speed</code>. ",
        comparison.tails_unchecked ? "without checks, one call in 61" : "in the checked runs");
}

} // namespace

std::string losses_brief(const PageData &data, const std::string &label)
{
    constexpr std::size_t most = 2;
    const Comparison &comparison = data.comparison;
    const bool compared = std::any_of(comparison.totals.begin(), comparison.totals.end(),
                                      [&](const ComparedTotal &total) { return total.label == label; });
    if (!compared || label == comparison.baseline || comparison.totals.size() < 2) return "";
    const LossLists lists = losses_of_malloc(comparison, label);
    std::string text;
    const auto add = [&](const char *what, const std::vector<Loss> &losses) {
        if (!losses.empty())
            text += fmt::format("<li><b>{}</b> <a href=\"#comparison\">than {}</a> in {}</li>\n", what,
                                html_escape(comparison.baseline), worst_first(losses, most));
    };
    add("slower", lists.speed);
    add("later (p99.9)", lists.tail);
    add("larger", lists.memory);
    return text.empty() ? "" : "<ul class=\"worse\">\n" + text + "</ul>\n";
}

std::string section_comparison(const PageData &data)
{
    const Comparison &comparison = data.comparison;
    if (comparison.scenarios.empty()) return "";
    std::string text = fmt::format("<section id=\"comparison\">\n<h2>{}</h2>\n",
                                   comparison.totals.size() > 1 ? "Where it is slow or large" : "Speed, tails, memory");
    if (comparison.scenarios.size() > 1) text += totals_table(comparison);
    text += losses_list(comparison);
    text += explained(comparison) + "<div class=\"grid\">\n";
    for (const ComparedScenario &one : comparison.scenarios) text += scenario_card(comparison, one);
    return text + "</div>\n</section>\n";
}

} // namespace stress
