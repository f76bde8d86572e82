// One run as a process of its own: started with posix_spawn in a process group of its own, watched, and killed with
// its whole group when it takes too long. What it leaves behind is taken in whatever way it ends.
//
// The child writes its JSON into an anonymous file, which it knows as kChildJsonPath; so a run that is killed leaves
// nothing on disk, and nothing that the subject prints can spoil the JSON. A child whose driver is gone dies of
// SIGPIPE at its next line of progress.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace stress {

// What the child passes to --json.
inline constexpr const char *kChildJsonPath = "/proc/self/fd/3";

struct ChildSpec {
    std::string program;             // path
    std::string name;                // what the child takes for its own: it repeats it in commands
    std::vector<std::string> words;  // arguments after the program's name
    double timeout_seconds = 0;
};

enum class ChildEnd { Exited, Signalled, TimedOut, Interrupted, NotStarted };

struct ChildOutcome {
    ChildEnd end = ChildEnd::NotStarted;
    int code = 0;  // exit status, signal number, or errno of the start
    double seconds = 0;
    std::string out_last_line, err_last_line;
    std::string json;
};

// Called some times a second with the time so far and the child's last line of progress; false ends the run, which
// is then Interrupted.
using ChildTick = std::function<bool(double seconds, const std::string &last_line)>;

// A command or line of the child without the --json that only its driver can give.
std::string child_words_forget(std::string text);

ChildOutcome child_run(const ChildSpec &spec, const ChildTick &tick);

}  // namespace stress
