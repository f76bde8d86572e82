// The directory of a report: index.html, results/ with a JSON file for each run, and for a soak its state. conform*.json are
// results of hakmem-stress conform, and surface.svg is of ci/bench surface, if somebody put them there. The page is
// made only from these, so it can be remade at any time; a file there that is not a result becomes a failing row.
//
// A soak of days would fill the disk, so only the results of the newest passing runs and of the first failing runs are
// kept; the others are just counted. Two campaigns never share a directory: it is locked while one is open.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "campaign/page/page.h"
#include "campaign/record.h"

namespace stress {

class ReportDirectory {
  public:
    explicit ReportDirectory(std::string path) : path_(std::move(path)) {}
    ReportDirectory(const ReportDirectory &) = delete;
    ReportDirectory &operator=(const ReportDirectory &) = delete;
    ~ReportDirectory();

    // Makes and locks the directory. Refuses one that holds a foreign index.html or, unless `soak`, a soak. Returns
    // what is wrong and how to mend it, or nothing.
    std::string open(bool soak);

    // Removes the results of runs from this number on: they are not counted, and will be made again. Call it before the
    // first add.
    void drop_from(std::uint64_t run);

    // The other functions return what is wrong, or nothing.
    std::string add(std::uint64_t run, const RunRecord &record, const std::string &json);
    std::string write_page(ReportHeader header);

    std::string page_path() const { return path_ + "/index.html"; }

  private:
    std::vector<DirectedChecks> read_directed() const;
    void know_libraries(const std::vector<RunRecord> &runs);

    std::string path_;
    std::vector<Library> libraries_;
    int lock_ = -1;
    std::deque<std::string> passes_; // names of results that are not failures, oldest first
    std::size_t failures_ = 0; // number of results that are
};

// The report on one run, from its JSON. Returns what is wrong, or nothing.
std::string report_one(const std::string &directory, const std::string &json, const std::string &command);

} // namespace stress
