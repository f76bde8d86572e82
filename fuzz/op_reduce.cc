// usage: fuzz-op-reduce FILE --shape ops|ops_mt [--run PROGRAM --has TEXT] [--out FILE] [--seconds N]
//        fuzz-op-reduce FILE --shape ops|ops_mt --encode --out FILE
//
// Prints an input of an op target as a text program. With --run, first makes it as small as possible (fewer ops,
// threads and stops, smaller sizes), as long as PROGRAM, run on it in a child, still fails and prints TEXT; writes the
// result to --out. With --encode, FILE is a text program, which may have repeats, and its encoding is written to --out.
// FILE may also be a trace (hakmem-stress capture): it is cut into inputs, and --out is the folder for them.
// Exit status: 0; 1 if the input does not fail in this way; 2 for bad input.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "engine/base/cli_numbers.h"
#include "fuzz/op_input_text.h"
#include "fuzz/op_shrink.h"
#include "program/program_file.h"
#include "program/trace_file.h"

extern char **environ;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBadInput = 2;
constexpr std::size_t kFileBytesMax = 1 << 20;
constexpr std::size_t kOutputBytesMax = 1 << 20;
constexpr int kHangSeconds = 20; // of one run; a find that is a hang is reported as one
constexpr std::string_view kHung = "\nlibFuzzer: timeout\n";

struct Arguments {
    std::string file, shape, program, has, out;
    bool encode = false;
    std::uint64_t seconds = 60;
};

[[noreturn]] void refuse(const std::string &text)
{
    std::fprintf(stderr, "fuzz-op-reduce: %s\n", text.c_str());
    std::exit(kBadInput);
}

std::string content_of(const std::string &path)
{
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) refuse("'" + path + "' cannot be read: " + std::strerror(errno));
    std::string bytes;
    for (char part[65536];;) {
        const ssize_t count = read(fd, part, sizeof part);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) refuse("'" + path + "' cannot be read: " + std::strerror(errno));
        if (count == 0) break;
        bytes.append(part, static_cast<std::size_t>(count));
        if (bytes.size() > kFileBytesMax) refuse("'" + path + "' is larger than 1 MiB, and an input never is");
    }
    close(fd);
    return bytes;
}

void write_out(const std::string &path, const std::vector<std::uint8_t> &bytes)
{
    const char *start = reinterpret_cast<const char *>(bytes.data());
    if (std::string fault = stress::program_write(path, {start, bytes.size()}); !fault.empty()) refuse(fault);
}

// The child's output until it ends or hangs; a hanging child is killed.
std::string output_until_end(int fd, pid_t child)
{
    std::string output;
    const auto end = Clock::now() + std::chrono::seconds(kHangSeconds);
    for (char part[16384];;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd waits{fd, POLLIN, 0};
        const int ready = left > 0 ? poll(&waits, 1, static_cast<int>(left)) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            kill(child, SIGKILL);
            return output.append(kHung);
        }
        const ssize_t count = read(fd, part, sizeof part);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return output;
        if (output.size() < kOutputBytesMax) output.append(part, static_cast<std::size_t>(count));
    }
}

class Reducer {
  public:
    explicit Reducer(const Arguments &arguments)
        : arguments_(arguments), end_(Clock::now() + std::chrono::seconds(arguments.seconds))
    {
        char name[] = "/tmp/hakmem-reduce.XXXXXX";
        const int fd = mkstemp(name);
        if (fd < 0) refuse(std::string("no temporary file can be made in /tmp: ") + std::strerror(errno));
        close(fd);
        path_ = name;
    }
    ~Reducer() { unlink(path_.c_str()); }

    bool late() const { return Clock::now() >= end_; }
    std::uint64_t runs() const { return runs_; }

    bool fails(const fuzz::OpInput &input)
    {
        ++runs_;
        write_out(path_, fuzz::op_input_encode(input));
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) refuse(std::string("no pipe: ") + std::strerror(errno));
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
        char *argv[] = {const_cast<char *>(arguments_.program.c_str()), path_.data(), nullptr};
        pid_t child = -1;
        const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        if (error != 0) refuse("'" + arguments_.program + "' cannot be run: " + std::strerror(error));
        const std::string output = output_until_end(ends[0], child);
        close(ends[0]);
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        return status != 0 && output.find(arguments_.has) != std::string::npos;
    }

  private:
    const Arguments &arguments_;
    Clock::time_point end_;
    std::string path_;
    std::uint64_t runs_ = 0;
};

// The inputs are named after the trace: NAME-000001, NAME-000002, ...
int encode_trace(const Arguments &arguments, const fuzz::OpShape &shape)
{
    stress::Program program;
    if (const std::string fault = stress::trace_program(arguments.file, program); !fault.empty())
        refuse("'" + arguments.file + "' " + fault);
    std::error_code error;
    std::filesystem::create_directories(arguments.out, error);
    if (error) refuse("the folder '" + arguments.out + "' cannot be made: " + error.message());
    const std::string name = std::filesystem::path(arguments.file).stem().string();
    std::size_t number = 0;
    for (const fuzz::OpInput &input : fuzz::op_input_cut(program.ops, shape)) {
        char suffix[32];
        std::snprintf(suffix, sizeof suffix, "-%06zu", ++number);
        write_out(arguments.out + "/" + name + suffix, fuzz::op_input_encode(input));
    }
    if (number == 0) refuse("'" + arguments.file + "' has no op that an input can have");
    std::printf("%zu inputs in %s\n", number, arguments.out.c_str());
    return 0;
}

int encode(const Arguments &arguments, const fuzz::OpShape &shape)
{
    if (stress::trace_is(arguments.file)) return encode_trace(arguments, shape);
    fuzz::OpInput input;
    const std::string fault = fuzz::op_input_parse(content_of(arguments.file), shape, input);
    if (!fault.empty()) refuse("'" + arguments.file + "', " + fault);
    write_out(arguments.out, fuzz::op_input_encode(input));
    return 0;
}

int reduce(const Arguments &arguments, const fuzz::OpShape &shape)
{
    const std::string bytes = content_of(arguments.file);
    const auto *start = reinterpret_cast<const std::uint8_t *>(bytes.data());
    fuzz::OpInput input = fuzz::op_input_decode({start, bytes.size()}, shape);
    if (!arguments.program.empty()) {
        Reducer reducer(arguments);
        if (!reducer.fails(input)) {
            std::fprintf(stderr, "fuzz-op-reduce: '%s' does not fail and say '%s' on it\n", arguments.program.c_str(),
                         arguments.has.c_str());
            return 1;
        }
        input = fuzz::op_shrink(
            std::move(input), shape,
            {[&](const fuzz::OpInput &trial) { return reducer.fails(trial); }, [&] { return reducer.late(); }});
        std::fprintf(stderr, "fuzz-op-reduce: %zu ops after %llu runs\n", input.ops.size(),
                     static_cast<unsigned long long>(reducer.runs()));
    }
    if (!arguments.out.empty()) write_out(arguments.out, fuzz::op_input_encode(input));
    std::fputs(fuzz::op_input_print(input).c_str(), stdout);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    Arguments arguments;
    CLI::App app("Prints an input of an op target, and makes one that fails small.", "fuzz-op-reduce");
    app.add_option("file", arguments.file, "the input")->required();
    app.add_option("--shape", arguments.shape, "that of the target")
        ->required()
        ->check(CLI::IsMember({"ops", "ops_mt"}));
    auto *run = app.add_option("--run", arguments.program, "the target, run on one input at a time");
    app.add_option("--has", arguments.has, "what it says then")->needs(run);
    auto *out = app.add_option("--out", arguments.out, "file for the input; of a trace, folder for its inputs");
    app.add_flag("--encode", arguments.encode, "the file is a text program or a trace")->needs(out)->excludes(run);
    app.add_option("--seconds", arguments.seconds, "give up after so long")->check(stress::whole_number(1, 86400));
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp &help) {
        return app.exit(help);
    } catch (const CLI::ParseError &error) {
        std::string text = error.what();
        std::replace(text.begin(), text.end(), '\n', ' ');
        refuse(text + " (see --help)");
    }
    const fuzz::OpShape &shape = arguments.shape == "ops" ? fuzz::kShapeOps : fuzz::kShapeOpsMt;
    return arguments.encode ? encode(arguments, shape) : reduce(arguments, shape);
}
