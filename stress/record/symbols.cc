#include "record/symbols.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

namespace stress {
namespace {

constexpr int kSecondsMax = 60;  // for one symbolizer: a program's debug information may be large

std::string hex_text(std::uint64_t value)
{
    char text[19];
    std::size_t at = sizeof text;
    do {
        text[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    return "0x" + std::string(text + at, sizeof text - at);
}

// The first symbolizer found in PATH.
std::string symbolizer_find()
{
    const char *path = std::getenv("PATH");
    for (const std::string name : {"llvm-symbolizer-19", "llvm-symbolizer", "addr2line"}) {
        std::string rest = path != nullptr ? path : "/usr/bin:/bin";
        while (!rest.empty()) {
            const std::size_t length = std::min(rest.find(':'), rest.size());
            const std::string file = rest.substr(0, length) + "/" + name;
            if (access(file.c_str(), X_OK) == 0) return file;
            rest.erase(0, length + 1);
        }
    }
    return "";
}

std::string read_until_end(int fd, pid_t child)
{
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kSecondsMax);
    std::string out;
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd poll_fd{fd, POLLIN, 0};
        const int ready = left.count() > 0 ? poll(&poll_fd, 1, static_cast<int>(left.count())) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            kill(child, SIGKILL);
            return "";
        }
        char part[65536];
        const ssize_t count = read(fd, part, sizeof part);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return out;
        out.append(part, static_cast<std::size_t>(count));
    }
}

// Runs the program and returns its output. Uses no shell, since a record may name any path. Removes LD_PRELOAD, so that
// the symbolizer does not run on the subject.
std::string output_of(const std::vector<std::string> &words)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return "";
    std::vector<char *> argv, environment;
    for (const std::string &word : words) argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    for (char **entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (!text.starts_with("LD_PRELOAD=") && !text.starts_with("HAKMEM_") && !text.starts_with("DEBUGINFOD_"))
            environment.push_back(*entry);
    }
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = -1;
    const int error = posix_spawn(&child, words[0].c_str(), &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string out;
    if (error == 0) {
        out = read_until_end(ends[0], child);
        while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    }
    close(ends[0]);
    return out;
}

// Reads "FILE:LINE", "FILE:LINE (discriminator 2)", "FILE:LINE:COLUMN", "??:0" or "??:?".
void read_line(const std::string &text, CrashLine &line)
{
    std::size_t colon = text.find_last_of(':');
    if (colon == std::string::npos || text.starts_with("??")) return;
    const std::size_t before = text.find_last_of(':', colon - 1);
    if (before != std::string::npos && before + 1 < colon && text.find_first_not_of("0123456789", before + 1) == colon)
        colon = before;
    line.file = text.substr(0, colon);
    line.line = std::strtoull(text.c_str() + colon + 1, nullptr, 10);
}

// One module's answers, by the address asked for. The output has an address, then two lines for each function.
std::map<std::string, std::vector<CrashLine>> read_answers(const std::string &out)
{
    std::map<std::string, std::vector<CrashLine>> answers;
    std::vector<CrashLine> *lines = nullptr;
    std::string function;
    bool has_function = false;
    for (std::size_t at = 0; at < out.size();) {
        const std::size_t end = std::min(out.find('\n', at), out.size());
        const std::string text = out.substr(at, end - at);
        at = end + 1;
        if (!has_function && text.starts_with("0x")) {
            lines = &answers[hex_text(std::strtoull(text.c_str(), nullptr, 16))];
        } else if (!has_function) {
            function = text;
            has_function = true;
        } else {
            has_function = false;
            if (lines == nullptr || function == "??" || function.empty()) continue;
            read_line(text, lines->emplace_back(CrashLine{function, "", 0}));
        }
    }
    return answers;
}

// A frame, and the address to look up: the instruction's own, or for a return address one byte less, which is inside
// the call.
struct Asked {
    CrashFrame *frame;
    std::uint64_t offset;
};

void add_lines(const std::string &symbolizer, const std::string &module, const std::vector<Asked> &asked)
{
    std::vector<std::string> words{symbolizer};
    if (symbolizer.find("llvm") != std::string::npos) words.push_back("--output-style=GNU");
    words.insert(words.end(), {"-a", "-f", "-C", "-i", "-e", module});
    std::set<std::uint64_t> offsets; // each offset once: frames of several lists may be the same call
    for (const Asked &one : asked)
        if (offsets.insert(one.offset).second) words.push_back(hex_text(one.offset));
    const auto answers = read_answers(output_of(words));
    for (const Asked &one : asked)
        if (const auto found = answers.find(hex_text(one.offset)); found != answers.end())
            one.frame->lines = found->second;
}

// Frames from index first_return on are return addresses.
std::vector<CrashFrame> frames_of(const CrashRecord &record, const std::vector<std::uint64_t> &addresses,
                                  std::size_t first_return)
{
    std::vector<CrashFrame> frames;
    for (const std::uint64_t pc : addresses) {
        CrashFrame &frame = frames.emplace_back();
        frame.pc = pc;
        frame.is_return = frames.size() > first_return;
        // A return address may be the first byte after a function that does not return, or even after its module.
        const CrashModule *module = record.module_of(frame.is_return && pc > 0 ? pc - 1 : pc);
        if (module == nullptr) continue;
        frame.module = module->path;
        frame.offset = pc - module->base;
    }
    return frames;
}

std::string add_all_lines(const std::vector<std::vector<CrashFrame> *> &lists)
{
    std::map<std::string, std::vector<Asked>> modules;
    for (std::vector<CrashFrame> *list : lists)
        for (CrashFrame &frame : *list)
            if (frame.module.starts_with("/"))
                modules[frame.module].push_back({&frame, frame.offset - (frame.is_return && frame.offset > 0 ? 1 : 0)});
    if (modules.empty()) return "";
    const std::string symbolizer = symbolizer_find();
    if (symbolizer.empty())
        return "no names of functions: install llvm-symbolizer (package llvm) or addr2line (package binutils)";
    std::string note;
    for (const auto &[module, asked] : modules) {
        if (access(module.c_str(), R_OK) == 0) add_lines(symbolizer, module, asked);
        else note = "no names of functions in '" + module + "': the file is not here";
    }
    return note;
}

// Removes the library's own frames, which come first: from the function that took the backtrace up to malloc or free.
void drop_own(const CrashRecord &record, std::vector<CrashFrame> &frames)
{
    const std::string library = record.text(RECORD_library);
    // Linked in statically: the library's own frames cannot be recognised.
    if (library == record.text(RECORD_program)) return;
    std::size_t own = 0;
    while (own < frames.size() && frames[own].module == library) ++own;
    if (own < frames.size()) frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(own));
}

} // namespace

CrashFrames crash_frames(const CrashRecord &record, bool symbolize)
{
    CrashFrames all;
    all.stack = frames_of(record, record.backtrace, 1);
    for (const CrashGuard &guard : record.guards)
        all.guards.push_back({frames_of(record, guard.allocated_at, 0), frames_of(record, guard.freed_at, 0)});
    if (record.failfast.has_value())
        all.failfast = {frames_of(record, record.failfast->allocated_at, 0),
                        frames_of(record, record.failfast->freed_at, 0)};
    std::vector<std::vector<CrashFrame> *> lists{&all.stack, &all.failfast.allocated, &all.failfast.freed};
    for (EventFrames &guard : all.guards) lists.insert(lists.end(), {&guard.allocated, &guard.freed});
    for (std::size_t i = 1; i < lists.size(); ++i) drop_own(record, *lists[i]);
    if (symbolize) all.note = add_all_lines(lists);
    return all;
}

} // namespace stress
