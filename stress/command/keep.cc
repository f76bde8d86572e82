#include "command/keep.h"

#include <fcntl.h>
#include <signal.h>
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

#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "engine/base/cli_numbers.h"
#include "engine/base/progress.h"
#include "engine/run/execute.h"
#include "engine/subject/fault_os.h"
#include "engine/subject/subject_load.h"
#include "engine/watch/expendable.h"
#include "program/program_file.h"

namespace stress {
namespace {

constexpr const char *kNames[] = {"rss", "time", "faults", "syscalls"};
constexpr unsigned kTrySeconds = 60;
constexpr int kTimedRuns = 3;

// What the child of one try tells.
struct Told {
    bool finished;
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
    make_expendable();
    alarm(kTrySeconds);
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
    return std::to_string(static_cast<std::uint64_t>(std::max(value, 0.0))) +
           (cost == Cost::Faults ? " faults" : " calls");
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
    server_ = spawn_self(program_name,
                         {"measure", std::to_string(program_fd_), std::to_string(ends[1]),
                          std::to_string(static_cast<int>(cost)), allocator},
                         false);
    close(ends[1]);
    fcntl(program_fd_, F_SETFD, FD_CLOEXEC);
    if (server_ < 0) fault = "no process to measure in";
}

CostMeter::~CostMeter()
{
    if (server_ > 0) {
        kill(server_, SIGKILL);
        wait_for(server_);
    }
    for (int fd : {program_fd_, socket_})
        if (fd >= 0) close(fd);
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
    return told.value;
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
            if (!best.finished || told.value < best.value) best = told;
        }
        if (send(socket, &best, sizeof best, MSG_NOSIGNAL) != sizeof best) break;
    }
    return 0;
}

} // namespace stress
