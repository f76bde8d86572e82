#include "campaign/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/progress.h"

namespace stress {

Journal::~Journal()
{
    if (fd_ < 0 || fd_ == STDOUT_FILENO) return;
    ::close(fd_);
    unlink(fresh_.c_str());
}

std::string Journal::open(const std::string &path)
{
    path_ = path;
    if (path.empty()) return "";
    fresh_ = path + ".new";
    fd_ = path == "-" ? STDOUT_FILENO : ::open(fresh_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0)
        return "cannot write '" + path + "': " + std::strerror(errno) +
               "; name a file in a directory that exists, or - for stdout";
    write_text(fd_, "{\"runs\": [");
    return "";
}

void Journal::add(const std::string &run_json)
{
    if (fd_ < 0) return;
    write_text(fd_, (first_ ? "\n" : ",\n") + run_json);
    first_ = false;
}

std::string Journal::close(const SoakState &state)
{
    if (fd_ < 0) return "";
    const bool complete = state.next_run == state.cells.size();
    write_text(fd_,
               "],\n\"seed\": " + std::to_string(state.first_seed) + ", \"passed\": " + std::to_string(state.passed) +
                   ", \"failed\": " + std::to_string(state.failed) + ", \"skipped\": " + std::to_string(state.skipped) +
                   ", \"verdict\": \"" + (complete && state.failed == 0 ? "pass" : "fail") + "\"}\n");
    if (fd_ == STDOUT_FILENO) {
        fd_ = -1;
        return "";
    }
    const bool kept = fsync(fd_) == 0 && ::close(fd_) == 0 && std::rename(fresh_.c_str(), path_.c_str()) == 0;
    fd_ = -1;
    return kept ? "" : "cannot write '" + path_ + "': " + std::strerror(errno);
}

}  // namespace stress
