#include "conform/run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "conform/child.h"
#include "conform/files.h"
#include "conform/report.h"
#include "engine/base/build.h"

namespace stress::conform {
namespace {

void write_all(int fd, const std::string &text)
{
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t written = write(fd, text.data() + done, text.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        done += static_cast<std::size_t>(written);
    }
}

int refuse(const std::string &what)
{
    write_all(STDERR_FILENO, "hakmem-stress: " + what + "\n");
    return 2;
}

// What is wrong with the options; empty if nothing is.
std::string choose(const ConformOptions &options, std::vector<const Check *> &chosen)
{
    const std::vector<const Check *> all = all_checks();
    if (options.only.empty()) chosen = all;
    for (const std::string &id : options.only) {
        const std::size_t before = chosen.size();
        for (const Check *check : all)
            if (id == check->id) chosen.push_back(check);
        if (chosen.size() == before)
            return "--only: unknown check '" + id + "'; hakmem-stress conform --list names them all";
    }
    return "";
}

// Opens the file before the run, so that minutes of checks do not end in a report that cannot be written.
int open_json(const std::string &path)
{
    if (path.empty()) return -1;
    if (path == "-") return STDOUT_FILENO;
    return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

}  // namespace

int conform_main(const ConformOptions &options, int out)
{
    std::vector<const Check *> chosen;
    if (const std::string wrong = choose(options, chosen); !wrong.empty()) return refuse(wrong);
    if (options.list) {
        write_all(out, list_text());
        return 0;
    }
    if (kSanitized || kDirect)
        return refuse("conform: a sanitizer build has another malloc in front; run it from a build without sanitizers");
    if (const std::string missing = files_missing(); !missing.empty())
        return refuse("conform: '" + missing + "' is not beside the program; build the target conform-files");
    const int json = open_json(options.json_path);
    if (json < 0 && !options.json_path.empty())
        return refuse("--json: cannot write '" + options.json_path + "': " + std::strerror(errno) +
                      "; name a file in a directory that exists, or - for stdout");

    static Subject subject = subject_find();
    const int text = json == STDOUT_FILENO ? STDERR_FILENO : out;
    std::vector<Finding> findings;
    for (const Check *check : chosen) {
        findings.push_back(run_in_child(*check, subject, options.deadline_seconds));
        write_all(text, finding_line(findings.back()));
    }
    const Counts counts = count_findings(findings);
    write_all(text, counts_line(counts));
    if (json >= 0) write_all(json, findings_json(options.allocator, subject.library, findings));
    if (json >= 0 && json != STDOUT_FILENO) close(json);
    return counts.failed == 0 ? 0 : 1;
}

}  // namespace stress::conform
