#include "campaign/merge/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "campaign/page/html.h"
#include "campaign/page/style.h"
#include "campaign/record.h"
#include "campaign/soak_state.h"
#include "campaign/command_words.h"
#include "engine/base/file.h"
#include "engine/base/junit.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFramesMax = 3;

struct Worker {
    std::string directory, build_id;
    SoakState state;
    bool has_state = false;
    std::uint64_t failed = 0;      // results read, each seed once
    std::vector<std::string> cuts; // a line for each file that is missing or unreadable
};

// Failures that have their rule, the frames of the library and its build in common.
struct Joined {
    std::string rule, build_id, allocator, detail, reproduce;
    std::vector<std::string> frames;
    std::set<std::string> workers, scenarios;
    std::set<std::uint64_t> seeds;
    std::uint64_t runs = 0;
};

struct Total {
    std::uint64_t runs = 0, workers = 0;
    double seconds = 0;
};

struct Merged {
    std::vector<Worker> workers;
    std::vector<Joined> failures; // the most frequent first
    std::uint64_t twice = 0;      // runs that were in more than one folder
};

std::string last_part(const std::string &path)
{
    return path.substr(path.rfind('/') + 1);
}

// One folder may be given by several names.
std::string real_path(const std::string &path)
{
    char *resolved = realpath(path.c_str(), nullptr);
    const std::string real = resolved != nullptr ? resolved : path;
    std::free(resolved);
    return real;
}

class Merger {
  public:
    void add(const std::string &directory)
    {
        Worker worker;
        worker.directory = directory;
        std::string text, fault = file_read(directory + "/soak.json", text);
        if (fault.empty()) fault = soak_state_read(text, worker.state);
        worker.has_state = fault.empty();
        if (!fault.empty())
            worker.cuts.push_back(directory + "/soak.json: " + fault + "; its hours and seeds do not count");
        for (const std::string &name : directory_names(directory + "/results")) {
            if (!name.ends_with(".json")) continue; // one that was being written when the worker was killed
            const std::string path = directory + "/results/" + name;
            std::string why = file_read(path, text);
            const RunRecord record = why.empty() ? record_read(text, &why) : RunRecord{};
            if (!why.empty()) worker.cuts.push_back(path + ": " + why + "; run its worker again with --fresh");
            else add(worker, record);
        }
        merged_.workers.push_back(std::move(worker));
    }

    Merged finish()
    {
        std::multimap<std::uint64_t, Joined *, std::greater<>> most_runs_first;
        for (auto &[key, joined] : joined_) most_runs_first.emplace(joined.runs, &joined);
        for (auto &[runs, joined] : most_runs_first) merged_.failures.push_back(std::move(*joined));
        return std::move(merged_);
    }

  private:
    void add(Worker &worker, const RunRecord &record)
    {
        if (worker.build_id.empty()) worker.build_id = record.build_id;
        if (record.verdict != RunVerdict::Fail || !record.expected.empty()) return;
        const std::string allocator = last_part(record.allocator);
        const auto run =
            std::tuple(record.scenario, allocator, record.schedule, record.build_id, record.seed.value_or(0));
        if (!seen_.insert(run).second) {
            ++merged_.twice;
            return;
        }
        ++worker.failed;
        const std::vector<std::string> frames = merge_frames(record.err_end, record.allocator);
        std::set<std::string> rules;
        for (const RunFailure &failure : record.failures) {
            if (!rules.insert(failure.rule).second) continue;
            Joined &joined = joined_[{failure.rule, frames, record.build_id, allocator}];
            if (joined.runs == 0) {
                joined.rule = failure.rule;
                joined.build_id = record.build_id;
                joined.allocator = allocator;
                joined.detail = failure.detail;
                joined.reproduce = record.reproduce;
                joined.frames = frames;
            }
            ++joined.runs;
            joined.workers.insert(worker.directory);
            joined.scenarios.insert(record.scenario);
            joined.seeds.insert(record.seed.value_or(0));
        }
    }

    Merged merged_;
    std::map<std::tuple<std::string, std::vector<std::string>, std::string, std::string>, Joined> joined_;
    std::set<std::tuple<std::string, std::string, std::string, std::string, std::uint64_t>> seen_;
};

std::map<std::string, Total> totals_of(const Merged &merged)
{
    std::map<std::string, Total> totals;
    for (const Worker &worker : merged.workers) {
        Total &total = totals[worker.build_id.empty() ? "unknown" : worker.build_id];
        ++total.workers;
        total.runs += worker.state.next_run;
        total.seconds += worker.state.elapsed_seconds;
    }
    return totals;
}

std::string title_of(const Joined &joined)
{
    return joined.rule + (joined.frames.empty() ? "" : fmt::format(" in {}", fmt::join(joined.frames, " < "))) +
           " of " + joined.allocator;
}

std::string failures_ndjson(const Merged &merged)
{
    std::string lines;
    for (const Joined &joined : merged.failures) {
        const Json json = {{"rule", joined.rule},           {"frames", joined.frames}, {"build_id", joined.build_id},
                           {"allocator", joined.allocator}, {"runs", joined.runs},     {"workers", joined.workers},
                           {"scenarios", joined.scenarios}, {"seeds", joined.seeds},   {"detail", joined.detail},
                           {"reproduce", joined.reproduce}};
        lines += json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    return lines;
}

std::string junit_of(const Merged &merged)
{
    std::vector<JunitCase> cases;
    for (const Worker &worker : merged.workers) {
        JunitCase one;
        one.group = "worker";
        one.name = worker.directory;
        one.seconds = worker.state.elapsed_seconds;
        for (const std::string &cut : worker.cuts) one.detail += cut + "\n";
        if (!worker.cuts.empty()) one.kind = JunitCase::Kind::Failed, one.message = worker.cuts.front();
        cases.push_back(one);
    }
    for (const Joined &joined : merged.failures)
        cases.push_back({"failure", title_of(joined), JunitCase::Kind::Failed, 0,
                         fmt::format("{} runs of {} workers: {}", joined.runs, joined.workers.size(), joined.detail),
                         joined.reproduce});
    return junit_xml("hakmem-stress merge", cases);
}

std::string page_of(const Merged &merged, const std::string &headline)
{
    std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                       "<meta name=\"generator\" content=\"hakmem-stress\">\n<link rel=\"icon\" href=\"data:,\">\n"
                       "<title>hakmem-stress: merged</title>\n<style>" +
                       std::string(kPageStyle) + "</style>\n</head>\n<body>\n<h1>" + html_escape(headline) + "</h1>\n";
    page += "<h2>Builds</h2>\n<table><tr><th>build id</th><th>workers</th><th>runs</th><th>time</th></tr>\n";
    for (const auto &[build, total] : totals_of(merged))
        page += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", html_escape(build),
                            total.workers, total.runs, duration_text(total.seconds));
    page += "</table>\n<h2>Failures</h2>\n";
    for (const Joined &joined : merged.failures)
        page += fmt::format("<h3>{}</h3>\n<p>{} runs, {} workers, build {}: {}</p>\n<pre>{}</pre>\n",
                            html_escape(title_of(joined)), joined.runs, joined.workers.size(),
                            html_escape(joined.build_id.empty() ? "unknown" : joined.build_id),
                            html_escape(joined.detail), html_escape(joined.reproduce));
    page += "<h2>Workers</h2>\n<table><tr><th>folder</th><th>runs</th><th>failed</th><th>time</th><th></th></tr>\n";
    for (const Worker &worker : merged.workers) {
        std::string cuts;
        for (const std::string &cut : worker.cuts) cuts += html_escape(cut) + "<br>";
        page += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                            html_escape(worker.directory), worker.state.next_run, worker.failed,
                            duration_text(worker.state.elapsed_seconds), cuts);
    }
    return page + "</table>\n</body>\n</html>\n";
}

} // namespace

std::vector<std::string> merge_frames(const std::string &stack, const std::string &allocator)
{
    std::vector<std::string> frames;
    std::size_t at = stack.find("which crashed:");
    const std::string library = last_part(allocator);
    while (at != std::string::npos && frames.size() < kFramesMax) {
        at = stack.find('\n', at);
        if (at == std::string::npos) break;
        const std::string line = stack.substr(at + 1, stack.find('\n', at + 1) - at - 1);
        const std::size_t number = line.find("    #"), end = line.find(" (");
        if (number != 0 || end == std::string::npos) break; // the next thread
        if (line.ends_with("/" + library))
            frames.push_back(line.substr(line.rfind(' ', end - 1) + 1, end - line.rfind(' ', end - 1) - 1));
        ++at;
    }
    return frames;
}

int merge_run(const MergeOptions &options)
{
    Merger merger;
    std::set<std::string> once;
    for (const std::string &directory : options.directories)
        if (once.insert(real_path(directory)).second) merger.add(directory);
    const Merged merged = merger.finish();
    std::uint64_t runs = 0, cuts = 0;
    double seconds = 0;
    for (const Worker &worker : merged.workers) {
        runs += worker.state.next_run;
        seconds += worker.state.elapsed_seconds;
        cuts += worker.cuts.size();
    }
    const std::string headline =
        fmt::format("{} failures joined, {} runs of {} workers in {}, {} cut", merged.failures.size(), runs,
                    merged.workers.size(), duration_text(seconds), cuts);
    std::string fault = directory_make(options.out);
    if (fault.empty()) fault = file_replace(options.out + "/failures.ndjson", failures_ndjson(merged));
    if (fault.empty()) fault = file_replace(options.out + "/junit.xml", junit_of(merged));
    if (fault.empty()) fault = file_replace(options.out + "/index.html", page_of(merged, headline));
    if (!fault.empty()) {
        write_text(STDERR_FILENO, "hakmem-stress: merge: --report: " + fault + "\n");
        return 2;
    }
    std::string text;
    for (const Joined &joined : merged.failures)
        text += fmt::format("FAIL  {}: {} runs, {} workers\n      {}\n      {}\n", title_of(joined), joined.runs,
                            joined.workers.size(), joined.detail, joined.reproduce);
    for (const Worker &worker : merged.workers)
        for (const std::string &cut : worker.cuts) text += "cut   " + cut + "\n";
    if (merged.twice > 0) text += fmt::format("{} runs were in more than one folder, and count once\n", merged.twice);
    write_text(STDOUT_FILENO, text + headline + "\nreport: " + options.out + "/index.html\n");
    return merged.failures.empty() && cuts == 0 ? 0 : 1;
}

} // namespace stress
