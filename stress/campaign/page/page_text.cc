// The sections of text and tables: headline, failures, runs, how to reproduce.
#include <fmt/format.h>

#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"
#include "campaign/words.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr std::size_t kRunsUnfolded = 1000;

std::string fact(const char *name, const std::string &value)
{
    return value.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, value);
}

std::string badge(RunVerdict verdict)
{
    const char *words[] = {"✓ pass", "✗ fail", "– skip"};
    return fmt::format("<span class=\"badge {}\">{}</span>", verdict_name(verdict), words[static_cast<int>(verdict)]);
}

std::string command(const std::string &text)
{
    return "<pre><code>" + html_escape(text) + "</code></pre>\n";
}

std::string headline_text(const ReportHeader &header, const char *&style_class)
{
    const SoakState &s = header.state;
    const std::uint64_t judged = s.passed + s.failed;
    style_class = s.failed != 0 ? "fail" : judged != 0 ? "pass" : "";
    std::string text;
    if (judged == 0) text = "No run has ended yet";
    else if (judged == 1) text = s.failed == 0 ? "The run passed" : "The run failed";
    else if (s.failed == 0) text = fmt::format("All {} runs passed", judged);
    else if (s.failed == judged) text = fmt::format("All {} runs failed", judged);
    else text = fmt::format("{} of {} runs failed", s.failed, judged);
    if (!header.complete) text += ", so far";
    return text;
}

std::string machine_text(const Machine &machine)
{
    std::string text = html_escape(machine.processor);
    if (machine.cores != 0) text += fmt::format("{}{} cores", text.empty() ? "" : ", ", machine.cores);
    if (machine.memory_bytes != 0) text += ", " + format_bytes(machine.memory_bytes) + " of memory";
    return text;
}

std::string how_run(const RunRecord &run)
{
    return html_escape(run.schedule) + (run.mode == RunMode::Check ? "" : std::string(", ") + mode_text(run.mode));
}

std::string run_name(const RunRecord &run)
{
    if (run.scenario.empty()) return html_escape(run.file);
    return fmt::format("{} on {}, {}", html_escape(run.scenario), html_escape(run.label), how_run(run));
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

std::string runs_table(const std::vector<const RunRecord *> &runs, const char *caption)
{
    std::string table = fmt::format(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\"><table><thead><tr><th "
        "scope=\"col\">verdict</th><th scope=\"col\">scenario</th><th scope=\"col\">allocator</th><th scope=\"col\">"
        "schedule</th><th scope=\"col\" class=\"n\">seed</th><th scope=\"col\" class=\"n\">ops/s</th><th scope=\"col\" "
        "class=\"n\">peak RSS</th><th scope=\"col\" class=\"n\">time</th><th scope=\"col\">rule or reason</th></tr>"
        "</thead>\n<tbody>\n",
        caption);
    for (const RunRecord *run : runs)
        table += fmt::format("<tr><td>{}</td><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td "
                             "class=\"n\">{}</td><td class=\"n\">{}</td>"
                             "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"wrap\">{}</td></tr>\n",
                             badge(run->verdict), html_escape(run->scenario.empty() ? run->file : run->scenario),
                             html_escape(run->label), how_run(*run),
                             run->seed.has_value() ? std::to_string(*run->seed) : "", html_rate(run->ops_per_second),
                             html_bytes(run->peak_rss_bytes), html_seconds(run->seconds), why(*run));
    return table + "</tbody></table></div>\n";
}

}  // namespace

std::string section_headline(const PageData &data)
{
    const ReportHeader &header = data.header;
    const SoakState &s = header.state;
    const char *style_class = "";
    const std::string headline = headline_text(header, style_class);
    std::string text = fmt::format("<header class=\"top\">\n<p class=\"eyebrow\">hakmem-stress, {}</p>\n<h1 "
                                   "class=\"{}\">{}</h1>\n",
                                   utc_text(header.written_unix), style_class, headline);
    text +=
        fmt::format("<p class=\"counts\"><b class=\"pass\">{}</b> passed, <b{}>{}</b> failed, <b>{}</b> skipped, in "
                    "{}{}",
                    html_count(s.passed), s.failed != 0 ? " class=\"fail\"" : "", html_count(s.failed),
                    html_count(s.skipped), duration_text(s.elapsed_seconds),
                    header.soak_seconds > 0 ? header.complete ? ", soak complete" : " of the soak so far" : "");
    if (s.known != 0) text += fmt::format(", <b>{}</b> known to fail", s.known);
    if (s.unconfirmed != 0) text += fmt::format(", <b>{}</b> not confirmed", s.unconfirmed);
    text += "</p>\n<nav aria-label=\"Sections\">";
    if (!data.comparison.scenarios.empty()) text += "<a href=\"#comparison\">Side by side</a>";
    if (s.failed + s.known != 0) text += "<a href=\"#failures\">Failures</a>";
    return text + "<a href=\"#runs\">Every run</a><a href=\"#memory\">Memory</a><a href=\"#latency\">Latency</a><a "
                  "href=\"#about\">About</a></nav>\n</header>\n";
}

std::string section_failures(const PageData &data)
{
    std::string text;
    for (auto run = data.runs.rbegin(); run != data.runs.rend(); ++run) {
        if (run->verdict != RunVerdict::Fail) continue;
        text += fmt::format("<article class=\"card bad\"><h3>{}{}</h3>\n<p class=\"lead\">",
                            run->expected.empty() ? badge(RunVerdict::Fail) : "<span class=\"badge skip\">known</span>",
                            run_name(*run));
        if (run->seed.has_value()) text += fmt::format("seed {}", *run->seed);
        if (!run->schedule_hash.empty()) text += ", schedule hash " + html_escape(run->schedule_hash);
        const std::string file = html_escape(run->file);
        text += fmt::format("{}<a href=\"results/{}\">result</a></p>\n<ul class=\"why\">\n",
                            run->seed.has_value() ? ", " : "", file);
        for (const RunFailure &failure : run->failures)
            text += fmt::format("<li><b>{}</b> <span class=\"detail\">{}</span></li>\n", html_escape(failure.rule),
                                html_escape(failure.detail));
        text += "</ul>\n";
        if (!run->confirmation.empty()) text += "<p>" + html_escape(run->confirmation) + "</p>\n";
        if (!run->expected.empty()) text += "<p><b>Known:</b> " + html_escape(run->expected) + "</p>\n";
        if (!run->reproduce.empty()) text += command(run->reproduce);
        if (!run->err_end.empty())
            text += "<details><summary>What it wrote to stderr</summary><pre>" + html_escape(run->err_end) +
                    "</pre></details>\n";
        text += "</article>\n";
    }
    if (text.empty()) return "";
    return "<section id=\"failures\">\n<h2>Failures</h2>\n<p class=\"lead\">Newest first. Each command repeats its "
           "run; a "
           "click selects it.</p>\n" +
           text + "</section>\n";
}

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
                        more ? "The newest checked run of each scenario, allocator and schedule." : "Newest first.");
    text += more ? runs_table(data.newest, "Newest runs") : runs_table(all, "All runs");
    if (more) {
        text += fmt::format("<details class=\"long\"><summary>All {} runs, newest first</summary>\n", all.size());
        text += runs_table(all, "All runs") + "</details>\n";
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

std::string section_about(const PageData &data)
{
    const ReportHeader &header = data.header;
    const SoakState &s = header.state;
    const bool soak = header.soak_seconds > 0;
    std::string text = "<section id=\"about\">\n<h2>Reproduce</h2>\n";
    text +=
        fmt::format("<p class=\"lead\">{}</p>\n{}<p class=\"lead\">With <code>--ops</code> the threads&#39; calls "
                    "are the same in every run; how the threads interleave is the system&#39;s choice under schedule "
                    "os, and the seed&#39;s under schedule seeded.</p>\n",
                    soak ? "This resumes the soak; with another directory after <code>--report</code> it does all "
                           "of it again, from the same seed:"
                         : "All of it again, from the same seed:",
                    command(header.command));
    text += "<dl class=\"card\">\n" + fact("Runs", html_escape(header.options));
    text += fact("Started", utc_text(s.started_unix));
    if (soak) text += fact("Soak", "asked for " + duration_text(header.soak_seconds));
    text += fact("Seed", soak ? fmt::format("{}, and up", s.first_seed) : std::to_string(s.first_seed));
    text += fact("Machine", machine_text(header.machine));
    text += fact("Kernel", html_escape(header.machine.kernel));
    return text + "</dl>\n</section>\n";
}

} // namespace stress
