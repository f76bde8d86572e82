// The sections of text and tables: headline, failures, runs, how to reproduce.
#include <fmt/format.h>

#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"
#include "campaign/words.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

std::string tile(const char *style_class, const std::string &figure, const char *label)
{
    return fmt::format("<div class=\"tile {}\"><b>{}</b><span>{}</span></div>\n", style_class, figure, label);
}

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

std::string run_name(const RunRecord &run)
{
    if (run.scenario.empty()) return html_escape(run.file);
    return fmt::format("{} on {}, {}", html_escape(run.scenario), html_escape(run.allocator),
                       html_escape(run.schedule));
}

std::string why(const RunRecord &run)
{
    if (run.verdict == RunVerdict::Skip) return html_escape(run.skip_reason);
    std::string text;
    for (const RunFailure &failure : run.failures) text += (text.empty() ? "" : ", ") + html_escape(failure.rule);
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
        table += fmt::format("<tr><td>{}</td><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"n\">{}</td><td "
                             "class=\"n\">{}</td>"
                             "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"wrap\">{}</td></tr>\n",
                             badge(run->verdict), html_escape(run->scenario.empty() ? run->file : run->scenario),
                             html_escape(short_name(run->allocator)), html_escape(run->schedule),
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
    std::string text = fmt::format("<header class=\"top\">\n<p class=\"eyebrow\">hakmem-stress report, {}</p>\n<h1 "
                                   "class=\"{}\">{}</h1>\n",
                                   utc_text(header.written_unix), style_class, headline);
    text += "<p class=\"lead\">" + html_escape(header.options) + "</p>\n<div class=\"tiles\">\n";
    text += tile("pass", html_count(s.passed), "passed");
    text += tile(s.failed != 0 ? "fail" : "", html_count(s.failed), "failed");
    text += tile(s.skipped != 0 ? "skip" : "", html_count(s.skipped), "skipped");
    const bool soak = header.soak_seconds > 0;
    text += tile("", duration_text(s.elapsed_seconds),
                 soak ? header.complete ? "soak, complete" : "of the soak so far" : "in all");
    text += "</div>\n<dl class=\"card\">\n";
    text += fact("Started", utc_text(s.started_unix));
    if (soak) text += fact("Soak", "asked for " + duration_text(header.soak_seconds));
    text += fact("Seed", soak ? fmt::format("{}, and up", s.first_seed) : std::to_string(s.first_seed));
    text += fact("Machine", machine_text(header.machine));
    text += fact("Kernel", html_escape(header.machine.kernel));
    text += fact("Command", "<code>" + html_escape(header.command) + "</code>");
    text += "</dl>\n<nav aria-label=\"Sections\">";
    if (s.failed != 0) text += "<a href=\"#failures\">Failures</a>";
    text += "<a href=\"#runs\">Runs</a><a href=\"#throughput\">Throughput</a><a href=\"#memory\">Memory</a><a "
            "href=\"#latency\">Latency</a><a href=\"#reproduce\">Reproduce</a></nav>\n</header>\n";
    return text;
}

std::string section_failures(const PageData &data)
{
    std::string text;
    for (auto run = data.runs.rbegin(); run != data.runs.rend(); ++run) {
        if (run->verdict != RunVerdict::Fail) continue;
        text += fmt::format("<article class=\"card bad\"><h3>{}{}</h3>\n<p class=\"lead\">", badge(RunVerdict::Fail),
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
        if (!run->reproduce.empty()) text += command(run->reproduce);
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
    const std::uint64_t counted = data.header.state.passed + data.header.state.failed + data.header.state.skipped;
    std::string text = "<section id=\"runs\">\n<h2>Runs</h2>\n";
    const bool more = data.runs.size() > data.newest.size();
    text += fmt::format("<p class=\"lead\">{}</p>\n<div class=\"card\">\n",
                        more ? "The newest run of each scenario, allocator and schedule." : "Every run.");
    text += runs_table(data.newest, "Newest runs");
    if (more) {
        std::vector<const RunRecord *> all;
        for (auto run = data.runs.rbegin(); run != data.runs.rend(); ++run) all.push_back(&*run);
        text += fmt::format("<details class=\"long\"><summary>All {} runs, newest first</summary>\n", all.size());
        text += runs_table(all, "All runs") + "</details>\n";
    }
    if (counted > data.runs.size())
        text += fmt::format("<p class=\"lead\">{} more runs are counted above; of a long soak the newest 5000 "
                            "passing runs and the first 5000 failing ones are kept.</p>\n",
                            counted - data.runs.size());
    return text + "</div>\n</section>\n";
}

std::string section_reproduce(const PageData &data)
{
    const char *how = data.header.soak_seconds > 0
                          ? "This resumes the soak; with another directory after <code>--report</code> it does all "
                            "of it "
                            "again, from the same seed:"
                          : "All of it again, from the same seed:";
    return fmt::format("<section id=\"reproduce\">\n<h2>Reproduce</h2>\n<p class=\"lead\">{}</p>\n{}<p class=\"lead\">"
                       "With <code>--ops</code> the threads' calls are the same in every run; how the threads "
                       "interleave is the system's choice under schedule os, and the seed's under schedule "
                       "seeded.</p>\n"
                       "</section>\n",
                       how, command(data.header.command));
}

}  // namespace stress
