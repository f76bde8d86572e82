#include "campaign/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/file.h"
#include "engine/base/progress.h"

namespace stress {

Journal::~Journal()
{
    if (fd_ < 0 || fd_ == STDOUT_FILENO) return;
    ::close(fd_);
    if (fresh_ != path_) unlink(fresh_.c_str());
}

std::string Journal::open(const std::string &path)
{
    path_ = path;
    if (path.empty()) return "";
    fresh_ = file_is_replaceable(path) ? path + ".new" : path;
    fd_ = path == "-" ? STDOUT_FILENO : ::open(fresh_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0)
        return "cannot write '" + path + "': " + std::strerror(errno) +
               "; name a file in a directory that exists, or - for stdout";
    put("{\"runs\": [");
    return "";
}

void Journal::put(const std::string &text)
{
    errno = 0;
    if (!write_text(fd_, text) && error_ == 0) error_ = errno != 0 ? errno : ENOSPC;
}

void Journal::add(const std::string &run_json)
{
    if (fd_ < 0) return;
    put((first_ ? "\n" : ",\n") + run_json);
    first_ = false;
}

std::string Journal::close(const SoakState &state)
{
    if (fd_ < 0) return "";
    const bool complete = state.next_run == state.cells.size();
    put("],\n\"seed\": " + std::to_string(state.first_seed) + ", \"passed\": " + std::to_string(state.passed) +
        ", \"failed\": " + std::to_string(state.failed) + ", \"skipped\": " + std::to_string(state.skipped) +
        ", \"verdict\": \"" + (complete && state.failed == 0 ? "pass" : "fail") + "\"}\n");
    const int fd = fd_;
    fd_ = -1;
    if (fd == STDOUT_FILENO)
        return error_ == 0 ? "" : std::string("cannot write to standard output: ") + std::strerror(error_);
    if (fresh_ != path_ && fsync(fd) != 0 && error_ == 0) error_ = errno;
    if (::close(fd) != 0 && error_ == 0) error_ = errno;
    if (error_ == 0 && fresh_ != path_ && std::rename(fresh_.c_str(), path_.c_str()) != 0) error_ = errno;
    if (error_ == 0) return "";
    if (fresh_ != path_) unlink(fresh_.c_str());
    return "cannot write '" + path_ + "': " + std::strerror(error_);
}

}  // namespace stress
