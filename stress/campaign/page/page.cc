#include "campaign/page/page.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "campaign/compare/labels.h"
#include "campaign/page/html.h"
#include "campaign/page/page_sections.h"
#include "campaign/page/style.h"

namespace stress {
namespace {

void add_once(std::vector<std::string> &list, const std::string &name)
{
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

// The newest run of each cell, in the order of the campaign; runs that belong to no cell come last.
PageData page_data(const ReportHeader &header, const std::vector<RunRecord> &runs)
{
    using Key = std::tuple<std::string, std::string, std::string>;
    PageData data{header, runs, comparison_of(runs), {}, {}, {}, {}};
    std::map<Key, const RunRecord *> newest;
    for (const RunRecord &run : runs)
        if (run.mode == RunMode::Check) newest[Key(run.scenario, run.allocator, run.schedule)] = &run;
    for (const CampaignCell &cell : header.state.cells) {
        const auto found = newest.find(Key(cell.scenario, cell.allocator, cell.schedule));
        if (found == newest.end()) continue;
        data.newest.push_back(found->second);
        newest.erase(found);
    }
    // A result that cannot be read has no name; the list of failures shows it.
    for (const auto &[key, run] : newest)
        if (!run->scenario.empty()) data.newest.push_back(run);
    for (const RunRecord *run : data.newest) {
        add_once(data.scenarios, run->scenario);
    }
    for (const ComparedTotal &total : data.comparison.totals) data.allocators.push_back(total.label);
    for (const RunRecord &run : runs) data.labels[run.allocator] = run.label;
    return data;
}

}  // namespace

std::string page_html(const ReportHeader &header, std::vector<RunRecord> runs)
{
    label_runs(runs);
    const PageData data = page_data(header, runs);
    std::string page =
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta name=\"generator\" content=\"hakmem-stress\">\n"
        // The page promises to load nothing and run nothing; this policy enforces it.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data:\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n<title>hakmem-stress: ";
    page += html_escape(verdict_text(data));
    page += "</title>\n<style>" + std::string(kPageStyle) + "</style>\n</head>\n<body>\n";
    page += section_headline(data);
    page += "<main>\n";
    page += section_failures(data);
    page += section_directed(data);
    page += section_comparison(data);
    page += section_surface(data);
    page += section_skips(data);
    page += "<details id=\"every-run\"><summary>Every run, with memory over time and times of calls</summary>\n";
    page += section_runs(data);
    page += section_memory(data);
    page += section_latency(data);
    page += "</details>\n";
    page += section_about(data);
    page += "<footer>Made by hakmem-stress; each run's result as JSON is under "
            "results/.</footer>\n</main>\n</body>\n</html>\n";
    return page;
}

}  // namespace stress
