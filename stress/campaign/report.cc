#include "campaign/report.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <tuple>

#include "engine/base/file.h"
#include "campaign/page/html.h"

namespace stress {
namespace {

constexpr std::size_t kPassesKept = 5000;
constexpr std::size_t kFailuresKept = 5000;
constexpr std::size_t kDigits = 8;

std::string file_word(const std::string &text)
{
    std::string word = text.substr(0, 40);
    for (char &c : word) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                           c == '_' || c == '.';
        if (!plain) c = '_';
    }
    return word;
}

std::string result_name(std::uint64_t run, const RunRecord &record)
{
    char number[32];
    std::snprintf(number, sizeof number, "%0*llu", static_cast<int>(kDigits), static_cast<unsigned long long>(run));
    const std::size_t slash = record.allocator.rfind('/');
    return std::string(number) + "-" + file_word(record.scenario) + "-" +
           file_word(slash == std::string::npos ? record.allocator : record.allocator.substr(slash + 1)) + "-" +
           file_word(record.schedule) + "-" + verdict_name(record.verdict) + ".json";
}

// Whether a file in results/ is one of ours, and which run it belongs to.
bool result_number(const std::string &name, std::uint64_t &run)
{
    std::size_t digits = 0;
    run = 0;
    while (digits < name.size() && digits < 18 && name[digits] >= '0' && name[digits] <= '9')
        run = run * 10 + static_cast<std::uint64_t>(name[digits++] - '0');
    return digits >= kDigits && digits < name.size() && name[digits] == '-' &&
           (name.ends_with(".json") || name.ends_with(".json.new"));
}

std::vector<std::string> result_names(const std::string &directory)
{
    std::vector<std::string> names;
    std::uint64_t run = 0;
    for (const std::string &name : directory_names(directory))
        if (result_number(name, run) && name.ends_with(".json")) names.push_back(name);
    return names;
}

// Keeps samples only for the runs that are drawn.
std::vector<RunRecord> read_results(const std::string &directory, const std::vector<std::string> &names)
{
    std::vector<RunRecord> runs;
    std::set<std::tuple<std::string, std::string, std::string>> drawn;
    std::string text;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
        const std::string fault = file_read(directory + "/" + *name, text);
        RunRecord record = record_read(text);
        if (!fault.empty()) record.failures = {{"error", fault}};
        record.file = *name;
        if (!drawn.insert({record.scenario, record.allocator, record.schedule}).second) {
            record.samples.clear();
            record.samples.shrink_to_fit();
        }
        runs.push_back(std::move(record));
    }
    std::reverse(runs.begin(), runs.end());
    return runs;
}

Machine machine_read()
{
    Machine machine;
    utsname system{};
    if (uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
    machine.cores = static_cast<std::uint64_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 0L));
    machine.memory_bytes = static_cast<std::uint64_t>(std::max(sysconf(_SC_PHYS_PAGES), 0L)) *
                           static_cast<std::uint64_t>(std::max(sysconf(_SC_PAGESIZE), 0L));
    std::string text;
    file_read("/proc/cpuinfo", text);
    const std::size_t key = text.find("model name"), colon = text.find(": ", key);
    if (key != std::string::npos && colon != std::string::npos)
        machine.processor = text.substr(colon + 2, text.find('\n', colon) - colon - 2);
    return machine;
}

}  // namespace

ReportDirectory::~ReportDirectory()
{
    if (lock_ >= 0) close(lock_);
}

std::string ReportDirectory::open(bool soak)
{
    if (std::string fault = directory_make(path_ + "/results"); !fault.empty())
        return fault + "; name a directory that can be written to";
    lock_ = ::open((path_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0) return "cannot write in '" + path_ + "'; name a directory that can be written to";
    // If a campaign was killed while it started a run, the child holds the lock for a moment, until its exec.
    bool locked = false;
    for (int tries = 0; !locked && tries < 40; ++tries) {
        if (tries > 0) usleep(50000);
        locked = flock(lock_, LOCK_EX | LOCK_NB) == 0;
    }
    if (!locked)
        return std::string("another campaign writes to '").append(path_) + "' now; wait for it, or name another "
                                                                           "directory";
    std::string text;
    if (file_exists(page_path()) && (!file_read(page_path(), text).empty() ||
                                     text.find("name=\"generator\" content=\"hakmem-stress\"") == std::string::npos))
        return std::string("'").append(page_path()) + "' is no report of this program; name another directory";
    if (!soak && file_exists(path_ + "/soak.json"))
        return std::string("'").append(path_) +
               "' holds a soak, which this report would replace; name another directory, or remove '" + path_ +
               "/soak.json'";
    return "";
}

void ReportDirectory::drop_from(std::uint64_t run)
{
    const std::string results = path_ + "/results";
    for (const std::string &name : directory_names(results)) {
        std::uint64_t number = 0;
        if (result_number(name, number) && (number >= run || name.ends_with(".new")))
            unlink((results + "/" + name).c_str());
    }
    passes_.clear();
    failures_ = 0;
    for (const std::string &name : result_names(results)) {
        if (name.ends_with("-fail.json")) ++failures_;
        else passes_.push_back(name);
    }
}

std::string ReportDirectory::add(std::uint64_t run, const RunRecord &record, const std::string &json)
{
    const std::string results = path_ + "/results/", name = result_name(run, record);
    if (record.verdict == RunVerdict::Fail) {
        if (failures_ >= kFailuresKept) return "";
        ++failures_;
    } else {
        passes_.push_back(name);
        if (passes_.size() > kPassesKept) {
            unlink((results + passes_.front()).c_str());
            passes_.pop_front();
        }
    }
    return file_replace(results + name, json);
}

std::vector<DirectedChecks> ReportDirectory::read_directed() const
{
    std::vector<DirectedChecks> all;
    std::string text;
    for (const std::string &name : directory_names(path_)) {
        if (!name.starts_with("conform") || !name.ends_with(".json")) continue;
        const std::string fault = file_read(path_ + "/" + name, text);
        all.push_back(directed_read(text));
        if (!fault.empty()) all.back().fault = fault;
        if (!all.back().fault.empty()) all.back().fault = name + ": " + all.back().fault;
    }
    return all;
}

// A library is looked at once: the page of a soak is made again after each run.
void ReportDirectory::know_libraries(const std::vector<RunRecord> &runs)
{
    for (const RunRecord &run : runs) {
        const bool is_known = run.allocator.empty() ||
                              std::any_of(libraries_.begin(), libraries_.end(),
                                          [&](const Library &library) { return library.allocator == run.allocator; });
        if (!is_known) libraries_.push_back(library_of(run.allocator));
    }
}

std::string ReportDirectory::write_page(ReportHeader header)
{
    const std::string results = path_ + "/results";
    const std::vector<RunRecord> runs = read_results(results, result_names(results));
    header.machine = machine_read();
    header.directed = read_directed();
    know_libraries(runs);
    header.libraries = libraries_;
    if (!file_read(path_ + "/surface.svg", header.surface_svg).empty()) header.surface_svg.clear();
    header.written_unix = static_cast<std::uint64_t>(time(nullptr));
    return file_replace(page_path(), page_html(header, runs));
}

std::string report_one(const std::string &directory, const std::string &json, const std::string &command)
{
    ReportDirectory report(directory);
    if (std::string fault = report.open(false); !fault.empty()) return fault;
    report.drop_from(0);
    const RunRecord record = record_read(json);
    if (std::string fault = report.add(0, record, json); !fault.empty()) return fault;
    ReportHeader header;
    header.command = command;
    header.options = record.scenario + " on " + record.allocator + "; schedule " + record.schedule;
    header.state.first_seed = record.seed.value_or(0);
    header.state.elapsed_seconds = record.wall_seconds.value_or(record.seconds.value_or(0));
    header.state.started_unix = static_cast<std::uint64_t>(time(nullptr));
    ++(record.verdict == RunVerdict::Pass   ? header.state.passed
       : record.verdict == RunVerdict::Fail ? header.state.failed
                                            : header.state.skipped);
    return report.write_page(header);
}

}  // namespace stress
