#include "engine/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stress {
namespace {

constexpr const char *kResultAdvice = "; name a file in a directory that exists, or - for stdout";

std::string fault(const char *verb, const std::string &path, int error)
{
    return std::string("cannot ") + verb + " '" + path + "': " + std::strerror(error);
}

bool write_all(int fd, const std::string &text)
{
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t written = write(fd, text.data() + done, text.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        done += static_cast<std::size_t>(written);
    }
    return true;
}

// One write, since others may add at the same time. Part of a text that does not fit is taken back, unless another process
// has written after it. Returns an errno value, or 0.
int append_line(int fd, const std::string &text)
{
    struct stat status{};
    if (fstat(fd, &status) != 0) return errno;
    if (!S_ISREG(status.st_mode)) return EINVAL;
    if (text.empty()) return 0;
    char last = '\n';
    if (status.st_size > 0 && pread(fd, &last, 1, status.st_size - 1) < 0) return errno;
    const std::string line = (last == '\n' ? "" : "\n") + text;
    ssize_t written;
    while ((written = write(fd, line.data(), line.size())) < 0 && errno == EINTR) {}
    if (written < 0) return errno;
    if (static_cast<std::size_t>(written) == line.size()) return fsync(fd) == 0 ? 0 : errno;
    const off_t before = lseek(fd, 0, SEEK_CUR) - written;
    if (fstat(fd, &status) == 0 && status.st_size == before + written && ftruncate(fd, before) != 0) return errno;
    return ENOSPC;
}

// The new name itself must reach the disk too. Returns an errno value, or 0. Not every directory may be opened, and not
// every filesystem can sync one.
int sync_directory_of(const std::string &path)
{
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : errno;
    int error = fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP ? 0 : errno;
    if (close(fd) != 0 && error == 0) error = errno;
    return error;
}

} // namespace

std::string file_read(const std::string &path, std::string &text, std::uint64_t bytes_max)
{
    text.clear();
    // O_NONBLOCK: opening a FIFO must not block the driver.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fault("read", path, errno);
    struct stat status{};
    int error = fstat(fd, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EINVAL;
    if (error == 0 && static_cast<std::uint64_t>(status.st_size) > bytes_max) error = EFBIG;
    char buffer[65536];
    while (error == 0) {
        const ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) error = errno;
        if (got <= 0) break;
        text.append(buffer, static_cast<std::size_t>(got));
        if (text.size() > bytes_max) error = EFBIG;
    }
    close(fd);
    if (error == 0) return "";
    text.clear();
    return fault("read", path, error);
}

std::string file_replace(const std::string &path, const std::string &text, unsigned mode)
{
    const std::string fresh = path + ".new";
    const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) return fault("write", fresh, errno);
    int error = write_all(fd, text) && fsync(fd) == 0 ? 0 : errno;
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(fresh.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) {
        unlink(fresh.c_str());
        return fault("write", path, error);
    }
    error = sync_directory_of(path);
    return error == 0 ? "" : fault("keep", path, error);
}

std::string file_append(const std::string &path, const std::string &text)
{
    // O_NONBLOCK: opening a FIFO must not block the driver.
    const int fd = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0) return fault("write", path, errno);
    int error = append_line(fd, text);
    if (close(fd) != 0 && error == 0) error = errno;
    if (error != 0) return fault("write", path, error);
    error = sync_directory_of(path); // the file may be new
    return error == 0 ? "" : fault("keep", path, error);
}

bool file_is_replaceable(const std::string &path)
{
    if (path.rfind("/proc/", 0) == 0 || path.rfind("/dev/", 0) == 0) return false;
    struct stat status{};
    return stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

std::string result_try(const std::string &path)
{
    if (path.empty() || path == "-") return "";
    if (!file_is_replaceable(path)) {
        struct stat status{};
        const bool is_directory = stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
        const int error = is_directory ? EISDIR : access(path.c_str(), W_OK) == 0 ? 0 : errno;
        return error == 0 ? "" : fault("write", path, error) + kResultAdvice;
    }
    const std::string fresh = path + ".new";
    const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return fault("write", path, errno) + kResultAdvice;
    const int error = close(fd) == 0 ? 0 : errno;
    unlink(fresh.c_str());
    return error == 0 ? "" : fault("write", path, error) + kResultAdvice;
}

std::string result_prepare(const std::string &path)
{
    if (std::string wrong = result_try(path); !wrong.empty()) return wrong;
    if (path.empty() || path == "-" || !file_is_replaceable(path)) return "";
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return fault("replace", path, errno) + kResultAdvice;
    return "";
}

std::string result_write(const std::string &path, const std::string &text, unsigned mode)
{
    if (path.empty()) return "";
    if (path != "-" && file_is_replaceable(path)) return file_replace(path, text, mode);
    const int fd = path == "-" ? STDOUT_FILENO : open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return fault("write", path, errno);
    int error = write_all(fd, text) ? 0 : errno;
    if (fd != STDOUT_FILENO && close(fd) != 0 && error == 0) error = errno;
    return error == 0 ? "" : fault("write", path == "-" ? "standard output" : path, error);
}

std::string directory_make(const std::string &path)
{
    for (std::size_t end = 1; end <= path.size(); ++end) {
        if (end != path.size() && path[end] != '/') continue;
        const std::string part = path.substr(0, end);
        if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) return fault("make the directory", part, errno);
    }
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) return fault("make the directory", path, errno);
    return S_ISDIR(status.st_mode) ? "" : fault("make the directory", path, ENOTDIR);
}

static_assert(sizeof(dirent::d_ino) == 8 && sizeof(dirent::d_off) == 8, "dirent is not what getdents64 writes");

std::vector<std::string> directory_names(const std::string &path)
{
    std::vector<std::string> names;
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return names;
    alignas(dirent) char buffer[32768];
    for (long got; (got = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0;) {
        for (long at = 0; at < got;) {
            const auto *entry = reinterpret_cast<const dirent *>(buffer + at);
            const std::string name = entry->d_name;
            if (name != "." && name != "..") names.push_back(name);
            at += entry->d_reclen;
        }
    }
    close(fd);
    std::sort(names.begin(), names.end());
    return names;
}

bool file_exists(const std::string &path)
{
    return access(path.c_str(), F_OK) == 0;
}

} // namespace stress
