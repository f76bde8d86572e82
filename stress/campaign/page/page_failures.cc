// Each failure with its rule and command, the directed checks, and what was skipped.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "campaign/compare/labels.h"
#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"

namespace stress {
namespace {

constexpr std::size_t kMoreShown = 200;

std::string rules_of(const RunRecord &run)
{
    std::vector<std::string> rules;
    for (const RunFailure &failure : run.failures)
        if (std::find(rules.begin(), rules.end(), failure.rule) == rules.end()) rules.push_back(failure.rule);
    return fmt::format("{}", fmt::join(rules, ", "));
}

std::size_t place_in(const std::vector<std::string> &names, const std::string &name)
{
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

void add_group(std::string &text, const FailureGroup &group, std::size_t number)
{
    const RunRecord &run = *group.runs[0];
    text += fmt::format("<article class=\"card bad\" id=\"failure{}\"><h3>{}{}</h3>\n<p class=\"lead\">", number,
                        run.expected.empty() ? badge(RunVerdict::Fail) : "<span class=\"badge skip\">known</span>",
                        run.scenario.empty()
                            ? html_escape(run.file)
                            : fmt::format("<span class=\"name\">{}</span> on <span class=\"name\">{}</span>",
                                          html_escape(run.scenario), html_escape(run.label)));
    if (!run.scenario.empty()) text += "schedule " + how_run(run) + ", ";
    if (run.seed.has_value()) text += fmt::format("seed {}, ", *run.seed);
    if (!run.schedule_hash.empty()) text += "schedule hash " + html_escape(run.schedule_hash) + ", ";
    text += fmt::format("<a href=\"results/{}\">result</a></p>\n<ul class=\"why\">\n", html_escape(run.file));
    for (const RunFailure &failure : run.failures)
        text += fmt::format("<li><b>{}</b> <span class=\"detail\">{}</span></li>\n", html_escape(failure.rule),
                            html_escape(failure.detail));
    text += "</ul>\n";
    if (!run.confirmation.empty()) text += "<p>" + html_escape(run.confirmation) + "</p>\n";
    if (!run.expected.empty()) text += "<p><b>Known:</b> " + html_escape(run.expected) + "</p>\n";
    if (!run.reproduce.empty()) text += command_box(run.reproduce);
    if (!run.err_end.empty())
        text += "<details><summary>What it wrote to stderr</summary><pre>" + html_escape(run.err_end) +
                "</pre></details>\n";
    const std::size_t more = group.runs.size() - 1;
    if (more == 0) {
        text += "</article>\n";
        return;
    }
    text +=
        fmt::format("<details class=\"long\"><summary>{} more {} by the same {}</summary>\n<ul class=\"why\">\n", more,
                    more == 1 ? "run" : "runs", group.rules.find(',') == std::string::npos ? "rule" : "rules");
    for (std::size_t i = 1; i <= std::min(more, kMoreShown); ++i) {
        const RunRecord &other = *group.runs[i];
        text += fmt::format("<li>{}{}, <a href=\"results/{}\">result</a>:\n{}</li>\n", how_run(other),
                            other.seed.has_value() ? fmt::format(", seed {}", *other.seed) : "",
                            html_escape(other.file), command_box(other.reproduce));
    }
    if (more > kMoreShown) text += fmt::format("<li>and {} more, in results/</li>\n", more - kMoreShown);
    text += "</ul></details>\n</article>\n";
}

std::string directed_finding(const std::string &anchor, const std::string &label, const DirectedFinding &finding)
{
    return fmt::format(
        "<details id=\"{}\"><summary><span class=\"badge {}\">{}</span> <span class=\"name\">{}</span> on <span "
        "class=\"name\">{}</span>: {}</summary>\n<p>{}</p>\n{}</details>\n",
        anchor, finding.is_known || finding.is_quality ? "skip" : "fail",
        finding.is_known     ? "known"
        : finding.is_quality ? "quality"
                             : "✗ standard",
        html_escape(finding.id), html_escape(label), html_escape(finding.detail), html_escape(finding.rule),
        command_box(finding.repeat));
}

} // namespace

std::string badge(RunVerdict verdict)
{
    const char *words[] = {"✓ pass", "✗ fail", "– skip"};
    return fmt::format("<span class=\"badge {}\">{}</span>", verdict_name(verdict), words[static_cast<int>(verdict)]);
}

std::string command_box(const std::string &text)
{
    return "<pre class=\"command\" tabindex=\"0\"><code>" + html_command(text) + "</code></pre>\n";
}

std::string how_run(const RunRecord &run)
{
    return html_escape(run.schedule) + (run.mode == RunMode::Check ? "" : std::string(", ") + mode_text(run.mode));
}

std::vector<FailureGroup> failure_groups(const PageData &data)
{
    std::vector<FailureGroup> groups;
    for (auto run = data.runs.rbegin(); run != data.runs.rend(); ++run) {
        if (run->verdict != RunVerdict::Fail) continue;
        const std::string name = run->scenario.empty() ? run->file : run->scenario, rules = rules_of(*run);
        const auto found = std::find_if(groups.begin(), groups.end(), [&](const FailureGroup &group) {
            return group.label == run->label && group.scenario == name && group.rules == rules &&
                   group.expected == run->expected;
        });
        if (found != groups.end()) found->runs.push_back(&*run);
        else groups.push_back({run->label, name, rules, run->expected, {&*run}});
    }
    std::sort(groups.begin(), groups.end(), [&](const FailureGroup &a, const FailureGroup &b) {
        const auto key = [&](const FailureGroup &group) {
            return std::make_tuple(!group.expected.empty(), !group.runs[0]->scenario.empty(),
                                   place_in(data.allocators, group.label), place_in(data.scenarios, group.scenario),
                                   data.runs.data() + data.runs.size() - group.runs[0]);
        };
        return key(a) < key(b);
    });
    return groups;
}

std::string directed_label(const PageData &data, const DirectedChecks &checks)
{
    const auto found = data.labels.find(checks.allocator);
    return found != data.labels.end() ? found->second : allocator_labels({checks.allocator})[0];
}

std::string directed_anchor(const PageData &data, const DirectedChecks &checks, const DirectedFinding &finding)
{
    return fmt::format("check{}-{}", &checks - data.header.directed.data(), &finding - checks.failed.data());
}

std::string section_failures(const PageData &data)
{
    const std::vector<FailureGroup> groups = failure_groups(data);
    if (groups.empty()) return "";
    std::string text =
        "<section id=\"failures\">\n<h2>Failures</h2>\n<p class=\"lead\">Each rule that was broken, and the "
        "command that repeats the run; a click selects it.</p>\n";
    for (std::size_t i = 0; i < groups.size(); ++i) add_group(text, groups[i], i);
    return text + "</section>\n";
}

std::string section_directed(const PageData &data)
{
    std::string text = "<section id=\"directed\">\n<h2>Directed checks</h2>\n";
    if (data.header.directed.empty())
        return text +
               "<p class=\"lead\">Not run. Each tests one thing that every malloc must do. "
               "<code>hakmem-stress conform --allocator MALLOC --json DIR/conform-NAME.json</code> before this report "
               "adds them, with the report&#39;s directory for DIR.</p>\n</section>\n";
    std::string rows, findings;
    for (const DirectedChecks &checks : data.header.directed) {
        if (!checks.fault.empty()) {
            findings += "<p>" + html_escape(checks.fault) + "</p>\n";
            continue;
        }
        const std::string label = directed_label(data, checks);
        const auto cell = [](const DirectedCounts &counts) {
            return counts.failed == 0
                       ? fmt::format("✓ {}", counts.passed)
                       : fmt::format("<b class=\"bad\">✗ {}</b> of {}", counts.failed, counts.failed + counts.passed);
        };
        rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", html_escape(label),
                            cell(checks.standard), cell(checks.quality), checks.skipped.size());
        for (const bool is_quality : {false, true})
            for (const DirectedFinding &finding : checks.failed)
                if (finding.is_quality == is_quality)
                    findings += directed_finding(directed_anchor(data, checks, finding), label, finding);
    }
    text +=
        "<p class=\"lead\">One situation each, with one right answer. A standard or a manual demands those on the left; "
        "the others, of quality, only this suite asks for, and they do not count as failures of a malloc.</p>\n<div "
        "class=\"card\"><div class=\"scroll\" role=\"region\" aria-label=\"Directed checks\" tabindex=\"0\"><table>"
        "<thead><tr><th scope=\"col\">malloc</th><th scope=\"col\">by a standard</th><th scope=\"col\">of "
        "quality</th><th scope=\"col\">skipped</th></tr></thead>\n<tbody>\n" +
        rows + "</tbody></table></div>\n" + findings + "</div>\n";
    return text + "</section>\n";
}

std::string section_skips(const PageData &data)
{
    std::map<std::string, std::map<std::string, std::vector<std::string>>> scenarios; // by reason and malloc
    std::map<std::string, std::size_t> counts;
    for (const RunRecord &run : data.runs) {
        if (run.verdict != RunVerdict::Skip) continue;
        std::vector<std::string> &names = scenarios[run.skip_reason][run.label];
        if (std::find(names.begin(), names.end(), run.scenario) == names.end()) names.push_back(run.scenario);
        ++counts[run.skip_reason];
    }
    if (scenarios.empty()) return "";
    std::string text =
        "<section id=\"skips\">\n<h2>Skipped</h2>\n<p class=\"lead\">What was not judged, by reason. It says "
        "nothing about a malloc.</p>\n<ul class=\"card why\">\n";
    for (const auto &[reason, mallocs] : scenarios) {
        text += fmt::format("<li>{}: {} {}", html_escape(reason), counts[reason], counts[reason] == 1 ? "run" : "runs");
        for (const auto &[label, names] : mallocs)
            text += fmt::format("<br><small><span class=\"name\">{}</span>: {}</small>", html_escape(label),
                                html_escape(fmt::format("{}", fmt::join(names, ", "))));
        text += "</li>\n";
    }
    return text + "</ul>\n</section>\n";
}

} // namespace stress
