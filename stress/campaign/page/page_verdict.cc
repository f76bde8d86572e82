// The first sections: may each malloc be trusted. The verdict with the names of what failed, each failure with its rule and
// command, the directed checks, and what was skipped.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "campaign/compare/labels.h"
#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"
#include "campaign/command_words.h"

namespace stress {
namespace {

constexpr std::size_t kNamesInHeading = 4, kMoreShown = 200;

// Failed runs of one malloc in one scenario by the same rules, newest first.
struct FailureGroup {
    std::string label, scenario, rules, expected;
    std::vector<const RunRecord *> runs;
};

std::string rules_of(const RunRecord &run)
{
    std::string text;
    for (const RunFailure &failure : run.failures)
        if (text.find(failure.rule) == std::string::npos) text += (text.empty() ? "" : ", ") + failure.rule;
    return text;
}

std::size_t place_in(const std::vector<std::string> &names, const std::string &name)
{
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// By malloc, then by scenario. Known failures come last, results that cannot be read first.
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

// One malloc, over all runs that were kept and the directed checks.
struct MallocVerdict {
    std::string label;
    std::size_t judged = 0, failed = 0, skipped = 0;
    const DirectedChecks *directed = nullptr;
    bool fails() const { return failed != 0 || (directed != nullptr && directed->standard.failed != 0); }
};

std::string directed_label(const PageData &data, const DirectedChecks &checks)
{
    const auto found = data.labels.find(checks.allocator);
    return found != data.labels.end() ? found->second : allocator_labels({checks.allocator})[0];
}

std::vector<MallocVerdict> malloc_verdicts(const PageData &data)
{
    std::vector<MallocVerdict> verdicts;
    for (const std::string &label : data.allocators) {
        MallocVerdict one;
        one.label = label;
        for (const RunRecord &run : data.runs) {
            if (run.label != label || run.scenario.empty()) continue;
            const bool is_skip = run.verdict == RunVerdict::Skip;
            one.skipped += is_skip;
            one.judged += !is_skip;
            one.failed += run.verdict == RunVerdict::Fail && run.expected.empty();
        }
        for (const DirectedChecks &checks : data.header.directed)
            if (checks.fault.empty() && directed_label(data, checks) == label) one.directed = &checks;
        verdicts.push_back(one);
    }
    return verdicts;
}

std::size_t unreadable(const PageData &data)
{
    return static_cast<std::size_t>(
        std::count_if(data.runs.begin(), data.runs.end(), [](const RunRecord &run) { return run.scenario.empty(); }));
}

std::string names_text(const std::vector<std::string> &names)
{
    const bool all = names.size() <= kNamesInHeading;
    const std::vector<std::string> shown(names.begin(), all ? names.end() : names.begin() + kNamesInHeading);
    return fmt::format("{}{}", fmt::join(shown, ", "),
                       all ? "" : fmt::format(" and {} more", names.size() - kNamesInHeading));
}

// Without one run that was kept: by the counts alone.
std::string counts_text(const SoakState &s)
{
    const std::uint64_t judged = s.passed + s.failed;
    if (judged == 0) return "No run has ended yet";
    if (judged == 1) return s.failed == 0 ? "The run passed" : "The run failed";
    if (s.failed == 0) return fmt::format("All {} runs passed", judged);
    return s.failed == judged ? fmt::format("All {} runs failed", judged)
                              : fmt::format("{} of {} runs failed", s.failed, judged);
}

std::string counted(const char *what, const DirectedCounts &counts)
{
    return fmt::format("{} of {} {}", counts.failed, counts.failed + counts.passed, what);
}

// What of this malloc failed, with links.
std::string what_failed(const MallocVerdict &verdict, const std::vector<FailureGroup> &groups)
{
    std::string text;
    for (std::size_t i = 0; i < groups.size(); ++i)
        if (groups[i].label == verdict.label && groups[i].expected.empty() && !groups[i].runs[0]->scenario.empty())
            text += fmt::format("{}<a class=\"name\" href=\"#failure{}\">{}</a> ({})", text.empty() ? "" : ", ", i,
                                html_escape(groups[i].scenario), html_escape(groups[i].rules));
    if (verdict.directed != nullptr && verdict.directed->standard.failed != 0)
        text += fmt::format("{}<a href=\"#directed\">{}</a>", text.empty() ? "" : "; ",
                            counted("checks of a standard", verdict.directed->standard));
    return text;
}

std::string verdict_item(const PageData &data, const MallocVerdict &verdict, const std::vector<FailureGroup> &groups)
{
    const bool fails = verdict.fails(), any = verdict.judged != 0 || verdict.directed != nullptr;
    std::string text = fmt::format("<li><span class=\"badge {}\">{}</span> <b class=\"name\">{}</b>",
                                   fails ? "fail"
                                   : any ? "pass"
                                         : "skip",
                                   fails ? "✗ fails"
                                   : any ? "✓ passes"
                                         : "– not judged",
                                   html_escape(verdict.label));
    if (fails) text += ": " + what_failed(verdict, groups);
    text += fmt::format(" <small>failed: {} of {} runs", verdict.failed, verdict.judged);
    if (verdict.directed != nullptr)
        text += fmt::format(", {}, {}", counted("checks of a standard", verdict.directed->standard),
                            counted("of quality", verdict.directed->quality));
    if (verdict.skipped != 0) text += fmt::format("; {} <a href=\"#skips\">skipped</a>", verdict.skipped);
    return text + "</small>" + losses_brief(data, verdict.label) + "</li>\n";
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

std::string directed_finding(const std::string &label, const DirectedFinding &finding)
{
    return fmt::format("<details><summary><span class=\"badge {}\">{}</span> <span class=\"name\">{}</span> on <span "
                       "class=\"name\">{}</span>: {}</summary>\n<p>{}</p>\n{}</details>\n",
                       finding.is_known || finding.is_quality ? "skip" : "fail",
                       finding.is_known     ? "known"
                       : finding.is_quality ? "quality"
                                            : "✗ standard",
                       html_escape(finding.id), html_escape(label), html_escape(finding.detail),
                       html_escape(finding.rule), command_box(finding.repeat));
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

std::string verdict_text(const PageData &data)
{
    const std::vector<MallocVerdict> verdicts = malloc_verdicts(data);
    std::vector<std::string> failing;
    std::string one; // of those that were judged
    std::size_t judged = 0;
    for (const MallocVerdict &verdict : verdicts) {
        if (verdict.judged == 0 && verdict.directed == nullptr) continue;
        ++judged;
        one = verdict.label;
        if (verdict.fails()) failing.push_back(verdict.label);
    }
    std::string text;
    if (const std::size_t bad = unreadable(data); bad != 0)
        text = fmt::format("{} {} cannot be used; ", bad, bad == 1 ? "result" : "results");
    if (judged == 0) text += counts_text(data.header.state);
    else if (judged == 1 && failing.empty()) text += one + " passes";
    else if (judged == 1) text += one + " fails";
    else if (failing.empty()) text += fmt::format("All {} mallocs pass", judged);
    else
        text += fmt::format("{} of {} mallocs {}: {}", failing.size(), judged, failing.size() == 1 ? "fails" : "fail",
                            names_text(failing));
    return text + (data.header.complete ? "" : ", so far");
}

std::string section_headline(const PageData &data)
{
    const ReportHeader &header = data.header;
    const SoakState &s = header.state;
    const std::vector<MallocVerdict> verdicts = malloc_verdicts(data);
    const std::vector<FailureGroup> groups = failure_groups(data);
    const bool fails = s.failed != 0 || std::any_of(verdicts.begin(), verdicts.end(),
                                                    [](const MallocVerdict &one) { return one.fails(); });
    std::string text = fmt::format("<header class=\"top\">\n<p class=\"eyebrow\">hakmem-stress, {}</p>\n<h1 "
                                   "class=\"{}\">{}</h1>\n",
                                   utc_text(header.written_unix),
                                   fails           ? "fail"
                                   : s.passed != 0 ? "pass"
                                                   : "",
                                   html_escape(verdict_text(data)));
    if (!verdicts.empty()) {
        text += "<ul class=\"verdicts\">\n";
        for (const MallocVerdict &verdict : verdicts) text += verdict_item(data, verdict, groups);
        text += "</ul>\n";
    }
    text += fmt::format("<p class=\"counts\">All runs: <b class=\"pass\">{}</b> passed, <b{}>{}</b> failed, "
                        "<b>{}</b> skipped, in <span class=\"name\">{}</span>{}",
                        html_count(s.passed), s.failed != 0 ? " class=\"fail\"" : "", html_count(s.failed),
                        html_count(s.skipped), duration_text(s.elapsed_seconds),
                        header.soak_seconds > 0 ? header.complete ? ", soak complete" : " of the soak so far" : "");
    if (s.known != 0) text += fmt::format(", <b>{}</b> known to fail", s.known);
    if (s.unconfirmed != 0) text += fmt::format(", <b>{}</b> not confirmed", s.unconfirmed);
    text += "</p>\n<nav aria-label=\"Sections\">";
    if (!groups.empty()) text += "<a href=\"#failures\">Failures</a>";
    text += "<a href=\"#directed\">Directed checks</a>";
    if (!data.comparison.scenarios.empty()) text += "<a href=\"#comparison\">Speed, tails, memory</a>";
    if (s.skipped != 0) text += "<a href=\"#skips\">Skipped</a>";
    return text + "<a href=\"#every-run\">Every run</a><a href=\"#about\">Libraries, reproduce</a></nav>\n</header>\n";
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
                if (finding.is_quality == is_quality) findings += directed_finding(label, finding);
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
