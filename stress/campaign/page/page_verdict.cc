// May each malloc be trusted: the verdict, with the rules that failed and the names of the scenarios and checks that broke them.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "campaign/command_words.h"
#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"
#include "engine/judge/failure.h"

namespace stress {
namespace {

constexpr std::size_t kNamesInHeading = 4;

// One malloc, over all runs that were kept and the directed checks.
struct MallocVerdict {
    std::string label;
    std::size_t judged = 0, failed = 0, skipped = 0;
    const DirectedChecks *directed = nullptr;
    bool fails() const { return failed != 0 || (directed != nullptr && directed->standard.failed != 0); }
};

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

// A rule, or a standard, and what broke it: scenarios or checks by name, with links.
struct Broken {
    std::string what;
    bool is_memory = false; // a rule on how much memory is held
    std::vector<std::string> names;
};

bool is_memory_rule(const std::string &rule)
{
    return rule == rule::kMemoryBound || rule == rule::kPlateau || rule == rule::kMemoryReturn ||
           rule == rule::kMappings;
}

void add_broken(std::vector<Broken> &all, const std::string &what, const std::string &name)
{
    auto found = std::find_if(all.begin(), all.end(), [&](const Broken &one) { return one.what == what; });
    if (found == all.end()) found = all.insert(all.end(), {what, is_memory_rule(what), {}});
    if (std::find(found->names.begin(), found->names.end(), name) == found->names.end()) found->names.push_back(name);
}

// The most names first, and how much memory is held last: a block that overlaps says more.
void sort_broken(std::vector<Broken> &all)
{
    std::multimap<std::pair<bool, std::ptrdiff_t>, Broken> sorted;
    for (Broken &each : all) {
        const std::pair place(each.is_memory, -std::ssize(each.names));
        sorted.emplace(place, std::move(each));
    }
    all.clear();
    for (auto &[place, each] : sorted) all.push_back(std::move(each));
}

// The rules of the suite that runs of this malloc broke, each with its scenarios.
std::vector<Broken> broken_by_runs(const MallocVerdict &verdict, const std::vector<FailureGroup> &groups)
{
    std::vector<Broken> all;
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const RunRecord &run = *groups[i].runs[0];
        if (groups[i].label != verdict.label || !groups[i].expected.empty() || run.scenario.empty()) continue;
        for (const RunFailure &failure : run.failures)
            add_broken(all, failure.rule,
                       fmt::format("<a class=\"name\" href=\"#failure{}\">{}</a>", i, html_escape(groups[i].scenario)));
    }
    sort_broken(all);
    return all;
}

// "C23" of "C23 7.24.3.7: ...", "quality" of "quality: ...".
std::string standard_of(const std::string &rule)
{
    return rule.substr(0, rule.find_first_of(" :"));
}

// The standards that directed checks of this malloc found broken, each with its checks; or what only quality asks for.
std::vector<Broken> broken_by_checks(const PageData &data, const MallocVerdict &verdict, bool is_quality)
{
    std::vector<Broken> all;
    if (verdict.directed == nullptr) return all;
    for (const DirectedFinding &finding : verdict.directed->failed)
        if (finding.is_quality == is_quality && !finding.is_known)
            add_broken(all, is_quality ? "" : standard_of(finding.rule),
                       fmt::format("<a class=\"name\" href=\"#{}\">{}</a>",
                                   directed_anchor(data, *verdict.directed, finding), html_escape(finding.id)));
    sort_broken(all);
    return all;
}

std::string first_of(const std::vector<std::string> &names, std::size_t most, const char *rest)
{
    const std::size_t shown = names.size() <= most + 1 ? names.size() : most; // "and 1 more" is as long as a name
    std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "));
    if (shown < names.size())
        text += fmt::format(" <a class=\"name\" href=\"{}\">and {} more</a>", rest, names.size() - shown);
    return text;
}

// What of this malloc failed, a line for each rule. `room` is shared by the mallocs that fail, so that all of them are on the
// first screen; the sections below have everything.
std::string what_failed(const PageData &data, const MallocVerdict &verdict, const std::vector<FailureGroup> &groups,
                        std::size_t failing)
{
    const std::size_t rules_most = std::clamp<std::size_t>(6 / failing, 1, 4);
    const std::size_t names_most = std::clamp<std::size_t>(8 / failing, 2, 6);
    std::string text;
    const auto add = [&](const char *before, const char *after, const std::vector<Broken> &all, const char *rest) {
        std::vector<std::string> others;
        for (const Broken &one : all) {
            const auto place = static_cast<std::size_t>(&one - all.data());
            if (place >= rules_most && all.size() > rules_most + 1)
                others.push_back(fmt::format("<a class=\"name\" href=\"{}\">{}</a>", rest, html_escape(one.what)));
            else
                text += fmt::format("<li><b>{}{}</b>{} {}</li>\n", before, html_escape(one.what), after,
                                    first_of(one.names, names_most, rest));
        }
        if (!others.empty()) text += fmt::format("<li>also {}{}</li>\n", before, first_of(others, names_most, rest));
    };
    add("", " in", broken_by_runs(verdict, groups), "#failures");
    add("against ", ":", broken_by_checks(data, verdict, false), "#directed");
    for (const Broken &quality : broken_by_checks(data, verdict, true))
        text += fmt::format("<li class=\"quality\">only of quality, no failure: {}</li>\n",
                            first_of(quality.names, names_most, "#directed"));
    return text.empty() ? "" : "<ul class=\"broken\">\n" + text + "</ul>\n";
}

std::string verdict_item(const PageData &data, const MallocVerdict &verdict, const std::vector<FailureGroup> &groups,
                         std::size_t failing)
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
    text += fmt::format(" <small>failed: {} of {} runs", verdict.failed, verdict.judged);
    if (verdict.directed != nullptr)
        text += fmt::format(", {}, {}", counted("checks of a standard", verdict.directed->standard),
                            counted("of quality", verdict.directed->quality));
    if (verdict.skipped != 0) text += fmt::format("; {} <a href=\"#skips\">skipped</a>", verdict.skipped);
    return text + "</small>" + what_failed(data, verdict, groups, failing) + losses_brief(data, verdict.label) +
           "</li>\n";
}

} // namespace

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
    const auto failing = static_cast<std::size_t>(
        std::count_if(verdicts.begin(), verdicts.end(), [](const MallocVerdict &one) { return one.fails(); }));
    const bool fails = s.failed != 0 || failing != 0;
    std::string text = fmt::format("<header class=\"top\">\n<p class=\"eyebrow\">hakmem-stress, {}</p>\n<h1 "
                                   "class=\"{}\">{}</h1>\n",
                                   utc_text(header.written_unix),
                                   fails           ? "fail"
                                   : s.passed != 0 ? "pass"
                                                   : "",
                                   html_escape(verdict_text(data)));
    if (!verdicts.empty()) {
        text += "<ul class=\"verdicts\">\n";
        for (const MallocVerdict &verdict : verdicts)
            text += verdict_item(data, verdict, groups, std::max<std::size_t>(failing, 1));
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

} // namespace stress
