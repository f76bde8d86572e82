// The sections of text and tables about the whole campaign: runs, the surface, libraries, how to reproduce.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"
#include "campaign/command_words.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr std::size_t kRunsUnfolded = 1000;

std::string fact(const char *name, const std::string &value)
{
    return value.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, value);
}

std::string machine_text(const Machine &machine)
{
    std::string text = html_escape(machine.processor);
    if (machine.cores != 0) text += fmt::format("{}{} cores", text.empty() ? "" : ", ", machine.cores);
    if (machine.memory_bytes != 0) text += ", " + format_bytes(machine.memory_bytes) + " of memory";
    return text;
}

std::string why(const RunRecord &run)
{
    if (run.verdict == RunVerdict::Skip) return html_escape(run.skip_reason);
    std::string text;
    for (const RunFailure &failure : run.failures) text += (text.empty() ? "" : ", ") + html_escape(failure.rule);
    for (const RunFailure &failure : run.unconfirmed)
        text += (text.empty() ? "" : "; ") +
                html_escape(unconfirmed_text(run) + ": " + failure.rule + ": " + failure.detail);
    return text;
}

std::string runs_table(const std::vector<const RunRecord *> &runs, const std::string &caption)
{
    std::string table = fmt::format(
        "<div class=\"scroll\" role=\"region\" aria-label=\"Runs of {}\" tabindex=\"0\"><table><thead><tr><th "
        "scope=\"col\">malloc</th><th scope=\"col\">schedule</th><th scope=\"col\">verdict</th><th scope=\"col\" "
        "class=\"n\">seed</th><th scope=\"col\" class=\"n\">ops/s</th><th scope=\"col\" class=\"n\">peak RSS</th><th "
        "scope=\"col\" class=\"n\">time</th><th scope=\"col\">rule or reason</th></tr></thead>\n<tbody>\n",
        caption);
    for (const RunRecord *run : runs)
        table += fmt::format(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
            "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"wrap\">{}</td></tr>\n",
            html_escape(run->scenario.empty() ? run->file : run->label), how_run(*run), badge(run->verdict),
            run->seed.has_value() ? std::to_string(*run->seed) : "", html_rate(run->ops_per_second),
            html_bytes(run->peak_rss_bytes), html_seconds(run->seconds), why(*run));
    return table + "</tbody></table></div>\n";
}

// By malloc, then schedule and mode, then time.
std::string runs_by_scenario(const PageData &data, const std::vector<const RunRecord *> &runs, const char *style_class)
{
    std::vector<std::string> scenarios = data.scenarios;
    if (std::any_of(runs.begin(), runs.end(), [](const RunRecord *run) { return run->scenario.empty(); }))
        scenarios.emplace_back(); // results that cannot be read
    std::string text;
    for (const std::string &scenario : scenarios) {
        std::vector<const RunRecord *> chosen;
        std::size_t failed = 0, skipped = 0;
        for (const RunRecord *run : runs) {
            if (run->scenario != scenario) continue;
            chosen.push_back(run);
            failed += run->verdict == RunVerdict::Fail;
            skipped += run->verdict == RunVerdict::Skip;
        }
        if (chosen.empty()) continue;
        const auto place = [&](const RunRecord *run) {
            return std::find(data.allocators.begin(), data.allocators.end(), run->label) - data.allocators.begin();
        };
        std::sort(chosen.begin(), chosen.end(), [&](const RunRecord *a, const RunRecord *b) {
            return std::make_tuple(place(a), a->mode, a->schedule, a) <
                   std::make_tuple(place(b), b->mode, b->schedule, b);
        });
        const std::string name = scenario.empty() ? "unreadable results" : html_escape(scenario);
        text +=
            fmt::format("<details{}><summary>{}: {} {}{}{}</summary>\n{}</details>\n", style_class, name, chosen.size(),
                        chosen.size() == 1 ? "run" : "runs", failed != 0 ? fmt::format(", {} failed", failed) : "",
                        skipped != 0 ? fmt::format(", {} skipped", skipped) : "", runs_table(chosen, name));
    }
    return text;
}

}  // namespace

std::string section_runs(const PageData &data)
{
    const SoakState &s = data.header.state;
    const std::uint64_t counted = s.passed + s.failed + s.skipped + s.known;
    std::string text = "<section id=\"runs\">\n<h2>Runs</h2>\n";
    // Of a soak there are thousands.
    std::vector<const RunRecord *> all;
    for (auto run = data.runs.rbegin(); run != data.runs.rend(); ++run) all.push_back(&*run);
    const bool more = all.size() > kRunsUnfolded;
    text += fmt::format("<p class=\"lead\">{}</p>\n<div class=\"card\">\n",
                        more ? "The newest checked run of each scenario, malloc and schedule." : "By scenario.");
    text += runs_by_scenario(data, more ? data.newest : all, "");
    if (more) {
        text += fmt::format("<details class=\"long\"><summary>All {} runs</summary>\n", all.size());
        text += runs_by_scenario(data, all, " class=\"long\"") + "</details>\n";
    }
    if (counted > data.runs.size())
        text += fmt::format("<p class=\"lead\">{} more runs are counted above; of a long soak the newest 5000 "
                            "passing runs and the first 5000 failing ones are kept.</p>\n",
                            counted - data.runs.size());
    return text + "</div>\n</section>\n";
}

// As an image, so that its style stays its own.
std::string section_surface(const PageData &data)
{
    if (data.header.surface_svg.empty()) return "";
    std::string text =
        "<section id=\"surface\">\n<h2>The whole surface</h2>\n<p class=\"lead\">By <code>ci/bench "
        "surface</code>: every pattern of calls at every size.</p>\n<img style=\"max-width:100%\" alt=\"Heat map "
        "of ratios to the best other malloc\" src=\"data:image/svg+xml,";
    for (const char c : data.header.surface_svg) {
        if (std::string_view("%#<>\"&\n").find(c) == std::string_view::npos) text += c;
        else text += fmt::format("%{:02X}", static_cast<unsigned>(c));
    }
    return text + "\">\n</section>\n";
}

// Which files were judged. A page that is made elsewhere, from results alone, cannot know.
static std::string libraries_table(const PageData &data)
{
    if (data.header.libraries.empty()) return "";
    std::string table =
        "<h2>Libraries</h2>\n<div class=\"card scroll\" role=\"region\" aria-label=\"Libraries\" tabindex=\"0\"><table><thead><tr><th "
        "scope=\"col\">malloc</th><th scope=\"col\">file</th><th scope=\"col\">build id</th></tr></thead>\n<tbody>\n";
    for (const Library &library : data.header.libraries) {
        const auto label = data.labels.find(library.allocator);
        table += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"wrap\">{}</td><td><code>{}</code></td></tr>\n",
                             html_escape(label != data.labels.end() ? label->second : library.allocator),
                             html_escape(library.fault.empty() ? library.path : library.fault),
                             library.build_id.empty() ? "none" : library.build_id);
    }
    return table + "</tbody></table></div>\n";
}

std::string section_about(const PageData &data)
{
    const ReportHeader &header = data.header;
    const SoakState &s = header.state;
    const bool soak = header.soak_seconds > 0;
    std::string text = "<section id=\"about\">\n" + libraries_table(data) + "<h2>Reproduce</h2>\n";
    text +=
        fmt::format("<p class=\"lead\">{}</p>\n{}<p class=\"lead\">With <code>--ops</code> the threads&#39; calls "
                    "are the same in every run; how the threads interleave is the system&#39;s choice under schedule "
                    "os, and the seed&#39;s under schedule seeded.</p>\n",
                    soak ? "This resumes the soak; with another directory after <code>--report</code> it does all "
                           "of it again, from the same seed:"
                         : "All of it again, from the same seed:",
                    command_box(header.command));
    text += "<dl class=\"card\">\n" + fact("Runs", html_escape(header.options));
    text += fact("Started", utc_text(s.started_unix));
    if (soak) text += fact("Soak", "asked for " + duration_text(header.soak_seconds));
    text += fact("Seed", soak ? fmt::format("{}, and up", s.first_seed) : std::to_string(s.first_seed));
    text += fact("Machine", machine_text(header.machine));
    text += fact("Kernel", html_escape(header.machine.kernel));
    return text + "</dl>\n</section>\n";
}

} // namespace stress
