#include "engine/watch/stack.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/base/program.h"

namespace stress {
namespace {

constexpr int kSecondsMax = 90;
constexpr std::size_t kFramesMax = 20, kThreadsMax = 16, kLineBytesMax = 200;

struct ThreadStack {
    std::string heading;
    std::vector<std::string> frames;
};

// gdb's heading: Thread 2 (Thread 0x7f47ab7ff6c0 (LWP 10581) "name" (Exiting)):
pid_t thread_of(const std::string &heading)
{
    const std::size_t at = heading.find("LWP ");
    if (at != std::string::npos) return static_cast<pid_t>(std::strtol(heading.c_str() + at + 4, nullptr, 10));
    const std::size_t process = heading.find("(process ");
    return process == std::string::npos ? 0
                                        : static_cast<pid_t>(std::strtol(heading.c_str() + process + 9, nullptr, 10));
}

// Frames of the harness that tell nothing: between a check and the subject, and below a check.
bool is_between(const std::string &frame)
{
    return frame.find("Recorded<") != std::string::npos;
}

bool is_bottom(const std::string &frame)
{
    for (const char *name : {"::child_run(", " start_thread (", " clone3 ("})
        if (frame.find(name) != std::string::npos) return true;
    return false;
}

// The thread that waits for this very output.
bool is_asking(const ThreadStack &thread)
{
    return std::any_of(thread.frames.begin(), thread.frames.end(),
                       [](const std::string &frame) { return frame.find("self_stack_write(") != std::string::npos; });
}

// Numbers the frames again, without those of the harness.
std::vector<std::string> shown_frames(const std::vector<std::string> &frames)
{
    std::vector<std::string> shown;
    for (std::string frame : frames) {
        if (is_bottom(frame) || shown.size() == kFramesMax) break;
        if (is_between(frame)) continue;
        for (const char *noise : {"stress::", "conform::", "(anonymous namespace)::"})
            for (std::size_t at; (at = frame.find(noise)) != std::string::npos;) frame.erase(at, std::strlen(noise));
        const std::size_t name = std::min(frame.find_first_not_of(' ', frame.find(' ')), frame.size());
        shown.push_back("#" + std::to_string(shown.size()) + " " + frame.substr(name, kLineBytesMax));
    }
    return shown;
}

// Frames above the signal are those of the handler.
void drop_handler(std::vector<std::string> &frames)
{
    const auto signal = std::find_if(frames.begin(), frames.end(), [](const std::string &frame) {
        return frame.find("<signal handler called>") != std::string::npos;
    });
    if (signal != frames.end()) frames.erase(frames.begin(), signal + 1);
}

}  // namespace

// Ascending: the output may be cut off behind hundreds of threads, and the one that crashed first is old.
std::vector<std::string> stack_words(pid_t process)
{
    const std::string gdb = program_find({"gdb"});
    if (gdb.empty()) return {};
    std::vector<std::string> words{gdb, "-nx", "-nh", "-batch"};
    for (const char *setting : {"set auto-load off", "set debuginfod enabled off", "set width 0"})
        words.insert(words.end(), {"-iex", setting});
    words.insert(words.end(), {"-p", std::to_string(process), "-ex", "set print frame-arguments scalars", "-ex",
                               "thread apply all -ascending -c bt 40"});
    return words;
}

std::vector<std::string> stack_read(const std::string &output, pid_t first_thread)
{
    std::vector<ThreadStack> threads;
    for (std::size_t at = 0; at < output.size();) {
        const std::size_t end = std::min(output.find('\n', at), output.size());
        const std::string line = output.substr(at, end - at);
        at = end + 1;
        if (line.starts_with("Thread ") && line.ends_with(":")) threads.push_back({line, {}});
        else if (line.starts_with("#") && !threads.empty()) threads.back().frames.push_back(line);
    }
    const auto first = std::find_if(threads.begin(), threads.end(), [&](const ThreadStack &thread) {
        return thread_of(thread.heading) == first_thread;
    });
    if (first != threads.end()) std::rotate(threads.begin(), first, first + 1);
    std::erase_if(threads, [&](const ThreadStack &thread) {
        return thread_of(thread.heading) != first_thread && is_asking(thread);
    });
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < threads.size() && i < kThreadsMax; ++i) {
        ThreadStack &thread = threads[i];
        const pid_t id = thread_of(thread.heading);
        if (id == first_thread) drop_handler(thread.frames);
        lines.push_back("thread " + std::to_string(id) + (id == first_thread ? ", which crashed:" : ":"));
        for (const std::string &frame : shown_frames(thread.frames)) lines.push_back("  " + frame);
    }
    if (threads.size() > kThreadsMax)
        lines.push_back("and " + std::to_string(threads.size() - kThreadsMax) + " more threads");
    return lines;
}

std::vector<std::string> stack_lines(pid_t process, pid_t first_thread)
{
    const std::vector<std::string> words = stack_words(process);
    if (words.empty()) return {"no stack: there is no gdb in PATH (package gdb)"};
    std::vector<std::string> lines = stack_read(program_output(words, kSecondsMax), first_thread);
    if (lines.empty())
        lines = {"no stack: gdb could not attach to process " + std::to_string(process) +
                 "; the system may forbid ptrace"};
    return lines;
}

}  // namespace stress
