// capture: runs any program with the recorder before its malloc, and makes a trace of each process.
//
// While the program runs, each process writes its log into FILE.logs/ (stress/capture/capture_log.h). The traces are made
// when the program has ended, however it ended. If this process is killed too, the logs stay, and capture without a
// program makes the traces from them.
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "capture/capture_log.h"
#include "capture/convert.h"
#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "engine/subject/subject_load.h"

namespace stress {
namespace {

// Recording stops where the disk has no more than this left: a program that writes to a mapping of a full disk dies.
constexpr std::uint64_t kDiskLeftBytes = std::uint64_t{256} << 20;
constexpr int kCannotExec = 127;

std::string program_directory()
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    const std::string program(path, length > 0 ? static_cast<std::size_t>(length) : 0);
    return program.substr(0, program.rfind('/') + 1);
}

std::string absolute(const std::string &path)
{
    char *here = path[0] == '/' ? nullptr : getcwd(nullptr, 0);
    const std::string whole = here == nullptr ? path : here + ("/" + path);
    std::free(here);
    return whole;
}

// From now on the processes that still live write no more.
void logs_close(const std::string &directory)
{
    for (const std::string &name : directory_names(directory)) {
        const int fd = open((directory + "/" + name).c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) continue;
        struct stat status{};
        const bool has_head = fstat(fd, &status) == 0 && status.st_size >= CAPTURE_HEAD_BYTES; // else reading it kills
        void *start =
            !has_head ? MAP_FAILED : mmap(nullptr, CAPTURE_HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (start == MAP_FAILED) continue;
        auto *head = static_cast<capture_head *>(start);
        const std::uint64_t count = __atomic_load_n(&head->count, __ATOMIC_RELAXED);
        if (count < head->room) __atomic_store_n(&head->room, count, __ATOMIC_RELAXED);
        munmap(start, CAPTURE_HEAD_BYTES);
    }
    const timespec pause{0, 20'000'000}; // for records that are being written
    nanosleep(&pause, nullptr);
}

bool disk_is_full(const std::string &directory)
{
    struct statvfs disk{};
    return statvfs(directory.c_str(), &disk) == 0 && std::uint64_t{disk.f_bavail} * disk.f_frsize < kDiskLeftBytes;
}

// Waits for the program, and keeps an eye on the disk.
int watch(pid_t child, const std::string &directory)
{
    bool told = false;
    for (int status = 0;;) {
        if (waitpid(child, &status, WNOHANG) == child) return status;
        if (disk_is_full(directory)) {
            logs_close(directory); // each time: a process that begins now has a new log
            if (!told)
                write_text(STDERR_FILENO, "hakmem-stress: capture: the disk of '" + directory +
                                              "' is nearly full: the program continues, and is no longer recorded\n");
            told = true;
        }
        const timespec pause{0, 5'000'000};
        nanosleep(&pause, nullptr);
    }
}

// In the child. `preload` has the recorder and, behind it, the allocator.
[[noreturn]] void become(const Arguments &arguments, const std::string &preload, const std::string &directory)
{
    const char *before = std::getenv("LD_PRELOAD");
    setenv("LD_PRELOAD", (before != nullptr && *before != '\0' ? preload + ":" + before : preload).c_str(), 1);
    setenv(CAPTURE_DIRECTORY, directory.c_str(), 1);
    if (arguments.records != 0) setenv(CAPTURE_RECORDS_MAX, std::to_string(arguments.records).c_str(), 1);
    else unsetenv(CAPTURE_RECORDS_MAX);
    std::vector<char *> words;
    for (const std::string &word : arguments.rest) words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    write_text(STDERR_FILENO, "hakmem-stress: cannot run '" + arguments.rest[0] + "': " + std::strerror(errno) + "\n");
    _exit(kCannotExec);
}

std::string figures_text(const std::string &path, const CaptureResult &result)
{
    const TraceFigures &figures = result.figures;
    std::string text = path + ": " + result.program + ", process " + std::to_string(result.pid) + ", " +
                       std::to_string(figures.ops) + " ops of " + std::to_string(figures.threads) +
                       (figures.threads == 1 ? " thread, " : " threads, ") + std::to_string(figures.blocks) +
                       " blocks of " + std::to_string(figures.bytes) + " bytes, peak live " +
                       format_bytes(figures.peak_live_bytes);
    if (result.unknown_frees != 0) text += "; " + std::to_string(result.unknown_frees) + " frees of blocks from before";
    if (result.lost != 0) text += "; " + std::to_string(result.lost) + " later calls are not in it";
    return text + "\n";
}

struct LogFile {
    std::string path;
    CaptureResult whose;
};

// The last program of the first process is what was asked for; its trace gets the name, the others get FILE.PID.
int convert_all(const std::string &directory, const std::string &output, pid_t main_process)
{
    std::vector<LogFile> logs;
    for (const std::string &name : directory_names(directory)) {
        LogFile log{directory + "/" + name, {}};
        if (capture_peek(log.path, log.whose).empty()) logs.push_back(log); // else it died before its first call
    }
    // An exec makes a further log, PID-2 and so on.
    std::sort(logs.begin(), logs.end(), [main_process](const LogFile &a, const LogFile &b) {
        const bool a_is_main = static_cast<pid_t>(a.whose.pid) == main_process;
        const bool b_is_main = static_cast<pid_t>(b.whose.pid) == main_process;
        if (a_is_main != b_is_main) return a_is_main;
        return a.path.size() != b.path.size() ? a.path.size() > b.path.size() : a.path > b.path;
    });
    std::size_t written = 0;
    for (LogFile &log : logs) {
        const std::string name = log.path.substr(log.path.rfind('/') + 1);
        const std::string path = written == 0 ? output : output + "." + name;
        if (std::string fault = capture_convert(log.path, path, log.whose); !fault.empty()) return bad_input(fault);
        unlink(log.path.c_str());
        if (log.whose.figures.blocks == 0) continue;
        ++written;
        write_text(STDOUT_FILENO, figures_text(path, log.whose));
    }
    for (const std::string &name : directory_names(directory)) unlink((directory + "/" + name).c_str());
    rmdir(directory.c_str());
    if (written != 0) return 0;
    return bad_input(
        "nothing was recorded: the program never calls malloc, is linked statically, has special rights, clears its "
        "environment, or may not write a file of 16 MiB (ulimit -f); a program that links libc dynamically and reads "
        "LD_PRELOAD can be recorded");
}

// The process whose trace gets the name, where nobody has waited for it: the one with the smallest number.
pid_t oldest_of(const std::string &directory)
{
    pid_t oldest = 0;
    for (const std::string &name : directory_names(directory)) {
        const auto pid = static_cast<pid_t>(std::atoi(name.c_str()));
        if (oldest == 0 || pid < oldest) oldest = pid;
    }
    return oldest;
}

} // namespace

int capture_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    if (!compress_available())
        return bad_input("this build has no libzstd; install libzstd-dev, and configure and build again");
    const std::string output = absolute(arguments.output), directory = output + ".logs";
    const bool left = file_exists(directory);
    if (arguments.rest.empty()) {
        if (!left) return bad_input("no program given; add it behind --");
        logs_close(directory);
        return convert_all(directory, output, oldest_of(directory));
    }
    if (left)
        return bad_input("'" + directory + "' has the logs of a capture that was killed: finish it with capture -o " +
                         arguments.output + ", or remove it");
    if (std::string fault = result_try(output); !fault.empty()) return bad_input("-o: " + fault);
    std::string fault, preload = subject_library(program_directory() + "plugin/libcapture.so", fault);
    if (fault.empty() && arguments.allocator != "system") preload += ":" + subject_library(arguments.allocator, fault);
    if (!fault.empty()) return bad_input("capture: " + fault);
    if (fault = directory_make(directory); !fault.empty()) return bad_input("-o: " + fault);

    // The interrupt of a terminal is for the program; its trace is still to be made.
    for (int signal_number : {SIGINT, SIGQUIT}) signal(signal_number, SIG_IGN);
    const pid_t child = fork();
    if (child < 0) return bad_input("cannot start a process for the program");
    if (child == 0) {
        for (int signal_number : {SIGINT, SIGQUIT}) signal(signal_number, SIG_DFL);
        become(arguments, preload, directory);
    }
    const int status = watch(child, directory);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotExec && directory_names(directory).empty()) {
        rmdir(directory.c_str());
        return 2;
    }
    if (const std::string ending = ending_text(status); !ending.empty())
        write_text(STDERR_FILENO, "hakmem-stress: capture: the program ended with " + ending + "\n");
    logs_close(directory);
    return convert_all(directory, output, child);
}

} // namespace stress
