#include "command/keep.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "engine/base/build.h"
#include "engine/base/cli_numbers.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "engine/run/execute.h"
#include "engine/subject/fault_os.h"
#include "engine/subject/subject_load.h"
#include "engine/subject/subject_probe.h"
#include "engine/watch/child_start.h"
#include "program/program_file.h"

namespace stress {
namespace {

constexpr const char *kNames[] = {"rss", "time", "faults", "syscalls", "instructions"};
constexpr unsigned kTrySeconds = 60, kCountedTrySeconds = 600;
constexpr int kTimedRuns = 3;

// What the child of one try tells.
struct Told {
    bool finished;
    pid_t child;
    double value;
};

double cpu_seconds(const rusage &usage)
{
    const auto seconds = [](const timeval &time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Runs the program once in this process, which is a child for that alone.
[[noreturn]] void run_once(const Program &program, Cost cost, const std::string &allocator, Support support, Told &told)
{
    child_start();
    alarm(cost == Cost::Instructions ? kCountedTrySeconds : kTrySeconds);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd); // no run prints anything
    Options options = options_of(program, allocator, false);
    options.latency = false;
    options.touch_pages = true;
    options.check = cost == Cost::Syscalls; // only checked ops say when they are inside the malloc
    options.return_seconds = 0;
    std::string note;
    Plan plan = plan_of(program, note);
    Scarcity scarcity;
    rusage before{}, after{};
    execute({options, "shrink", support, program.seed, "",
             [&](Run &) {
                 if (cost == Cost::Syscalls && fault_os_install()) fault_os_arm_process(scarcity, 0, false);
                 getrusage(RUSAGE_SELF, &before);
             },
             [&](Result &result) {
                 getrusage(RUSAGE_SELF, &after);
                 switch (cost) {
                 case Cost::Rss:
                     told.value =
                         static_cast<double>(result.peak_rss_bytes) - static_cast<double>(result.start_rss_bytes);
                     break;
                 case Cost::Time: told.value = cpu_seconds(after) - cpu_seconds(before); break;
                 case Cost::Faults: told.value = static_cast<double>(after.ru_minflt - before.ru_minflt); break;
                 case Cost::Syscalls: told.value = static_cast<double>(fault_os_disarm_process().calls); break;
                 case Cost::Instructions: break; // valgrind writes them when this process ends
                 }
                 told.finished = result.passed();
             },
             true, false},
            plan);
    _exit(0);
}

bool read_program(int fd, Program &program)
{
    struct stat status{};
    if (fstat(fd, &status) != 0) return false;
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void *start = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (start == MAP_FAILED) return false;
    const std::string fault = program_decode({static_cast<unsigned char *>(start), bytes}, program);
    munmap(start, bytes);
    return fault.empty();
}

} // namespace

std::optional<Keep> keep_parse(const std::string &text)
{
    Keep keep;
    const std::size_t above = text.find('>'), times = text.find("x:");
    if (above == std::string::npos || times == std::string::npos || times < above) return std::nullopt;
    const auto *name = std::find(std::begin(kNames), std::end(kNames), text.substr(0, above));
    if (name == std::end(kNames)) return std::nullopt;
    keep.cost = static_cast<Cost>(name - std::begin(kNames));
    keep.allocator = text.substr(times + 2);
    if (keep.allocator == "glibc" || keep.allocator == "libc") keep.allocator = "system";
    const bool number = parse_number(text.substr(above + 1, times - above - 1), keep.factor);
    if (!number || keep.factor < 1 || keep.allocator.empty()) return std::nullopt;
    return keep;
}

std::string cost_text(Cost cost, double value)
{
    if (cost == Cost::Rss) return format_bytes(static_cast<std::uint64_t>(std::max(value, 0.0)));
    if (cost == Cost::Time) return std::to_string(value * 1e3) + " ms";
    return std::to_string(static_cast<std::uint64_t>(std::max(value, 0.0))) + (cost == Cost::Faults ? " faults"
                                                                               : cost == Cost::Syscalls
                                                                                   ? " calls"
                                                                                   : " instructions");
}

std::uint64_t callgrind_instructions(const std::string &text, const std::string &library)
{
    std::uint64_t sum = 0;
    bool is_own = false, is_of_callee = false;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
        end = std::min(text.find('\n', at), text.size());
        const std::string_view line(text.data() + at, end - at);
        if (line.rfind("ob=", 0) == 0) {
            const std::string_view object = line.substr(3);
            is_own = library.empty() ? object.find("/libc.so.") != object.npos || object.find("/libc-2.") != object.npos
                                     : object == library;
        } else if (line.rfind("calls=", 0) == 0) {
            is_of_callee = true; // the next line is what the callee took, which is listed there too
        } else if (!line.empty() && line[0] >= '0' && line[0] <= '9') {
            if (is_own && !is_of_callee) sum += std::strtoull(text.c_str() + at + line.rfind(' '), nullptr, 10);
            is_of_callee = false;
        }
    }
    return sum;
}

CostMeter::CostMeter(const char *program_name, const std::string &allocator, Cost cost, std::string &fault)
{
    fault = subject_fault(allocator);
    if (!fault.empty()) return;
    int ends[2];
    program_fd_ = memfd_create("hakmem-stress-keep", 0);
    if (program_fd_ < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        fault = std::string("no process to measure in: ") + std::strerror(errno);
        return;
    }
    socket_ = ends[0];
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    std::vector<std::string> words{program_name,
                                   "measure",
                                   std::to_string(program_fd_),
                                   std::to_string(ends[1]),
                                   std::to_string(static_cast<int>(cost)),
                                   allocator};
    fault = cost == Cost::Instructions ? start_counted(words, allocator) : start("/proc/self/exe", words, {});
    close(ends[1]);
    fcntl(program_fd_, F_SETFD, FD_CLOEXEC);
    if (!fault.empty() || cost != Cost::Instructions) return;
    Program least;
    least.ops.push_back(op_make(OpKind::Malloc, 0, 16));
    const std::optional<double> before = measure(least);
    if (!before.has_value()) fault = "'" + allocator + "' does not run under valgrind";
    else if (*before == 0) fault = "valgrind counts no instruction of '" + allocator + "'";
    else before_ = *before;
}

// Starts the process that measures. Returns what is wrong.
std::string CostMeter::start(const char *program, std::vector<std::string> words, std::vector<std::string> environment)
{
    const int error = posix_spawnp(&server_, program, nullptr, nullptr, pointers_to(words).data(),
                                   environment.empty() ? environ : pointers_to(environment).data());
    if (error == 0) return "";
    server_ = -1;
    return std::string(program) + ": " + std::strerror(error);
}

std::string CostMeter::start_counted(std::vector<std::string> words, const std::string &allocator)
{
    if (kDirect || kSanitized) return "instructions are those of a library: use a build that preloads it";
    std::vector<std::string> environment;
    if (allocator != "system") {
        std::string fault;
        const std::string path = subject_library(allocator, fault);
        if (!fault.empty()) return fault;
        environment = subject_environment(path);
        char *resolved = realpath(path.c_str(), nullptr); // valgrind names the file behind a link
        library_ = resolved != nullptr ? resolved : path;
        std::free(resolved);
    }
    const char *temporary = std::getenv("TMPDIR");
    std::string folder = std::string(temporary != nullptr ? temporary : "/tmp") + "/hakmem-stress-keep.XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return "no folder " + folder + " for valgrind: " + std::strerror(errno);
    folder_ = folder;
    words[0] = "/proc/" + std::to_string(getpid()) + "/exe";
    const std::vector<std::string> before{"valgrind",
                                          "--tool=callgrind",
                                          "--quiet",
                                          "--fair-sched=yes",
                                          "--compress-strings=no",
                                          "--compress-pos=no",
                                          "--callgrind-out-file=" + folder_ + "/%p"};
    words.insert(words.begin(), before.begin(), before.end());
    const std::string fault = start("valgrind", words, environment);
    return fault.empty() ? "" : fault + "; it counts the instructions: install it, as by ci/setup --bench";
}

CostMeter::~CostMeter()
{
    if (server_ > 0) {
        kill(server_, SIGKILL);
        wait_for(server_);
    }
    for (int fd : {program_fd_, socket_})
        if (fd >= 0) close(fd);
    if (folder_.empty()) return;
    for (const std::string &name : directory_names(folder_)) unlink((folder_ + "/" + name).c_str());
    rmdir(folder_.c_str());
}

// From the file that valgrind has written at the child's end.
std::optional<double> CostMeter::instructions_of(pid_t child) const
{
    const std::string path = folder_ + "/" + std::to_string(child);
    std::string text;
    const std::string fault = file_read(path, text);
    unlink(path.c_str());
    if (!fault.empty()) return std::nullopt;
    return static_cast<double>(callgrind_instructions(text, library_)) - before_;
}

std::optional<double> CostMeter::measure(const Program &program)
{
    const Text bytes = program_encode(program);
    if (ftruncate(program_fd_, static_cast<off_t>(bytes.size())) != 0) return std::nullopt;
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t count = pwrite(program_fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (count <= 0) return std::nullopt;
        done += static_cast<std::size_t>(count);
    }
    Told told{};
    if (send(socket_, "m", 1, MSG_NOSIGNAL) != 1 || recv(socket_, &told, sizeof told, MSG_WAITALL) != sizeof told ||
        !told.finished)
        return std::nullopt;
    return folder_.empty() ? told.value : instructions_of(told.child);
}

// measure PROGRAM-FD SOCKET COST ALLOCATOR: measures the program in the file for each byte that comes.
int measure_main(int argc, char **argv)
{
    if (argc != 6) return bad_input("measure is for the program's own use");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string allocator = argv[5];
    const SubjectOutcome subject = subject_load(allocator, false, argv);
    if (!subject.ok) return bad_input(subject.error);
    const int program_fd = std::atoi(argv[2]), socket = std::atoi(argv[3]);
    const auto cost = static_cast<Cost>(std::atoi(argv[4]));
    void *start = mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return bad_input("no memory to measure with");
    auto &told = *static_cast<Told *>(start);
    for (char go; recv(socket, &go, 1, 0) == 1;) {
        Told best{};
        for (int run = 0; run < (cost == Cost::Time ? kTimedRuns : 1); ++run) {
            told = {};
            const pid_t child = fork();
            if (child == 0) {
                Program program; // in the child, so that the heap of this process stays as it is
                if (!read_program(program_fd, program)) _exit(1);
                run_once(program, cost, allocator, subject.support, told);
            }
            if (child < 0 || wait_for(child) != 0 || !told.finished) {
                best.finished = false;
                break;
            }
            told.child = child;
            if (!best.finished || told.value < best.value) best = told;
        }
        if (send(socket, &best, sizeof best, MSG_NOSIGNAL) != sizeof best) break;
    }
    return 0;
}

} // namespace stress
