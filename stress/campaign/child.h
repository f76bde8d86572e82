// One run in its own process and process group: started with posix_spawn, watched (engine/watch/watcher.h), and killed
// with its whole group if it hangs or takes too much memory. Its output and result are collected however it ends.
//
// The child writes its JSON into an anonymous file, under the name kChildJsonPath. So a killed run leaves nothing on
// disk, and output of the subject cannot spoil the JSON. If the driver is gone, the child dies of SIGPIPE at its next
// line of progress.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stress {

// What the child passes to --json.
inline constexpr const char *kChildJsonPath = "/proc/self/fd/3";

struct ChildSpec {
    std::string program;             // path
    std::string name;                // name of the program for the child, which repeats it in commands
    std::vector<std::string> words;  // arguments after the program's name
    // It hangs after this long without processor time, or with this much of it beyond what a run of one thread needs;
    // after six times as long it is slow.
    double timeout_seconds = 0;
    std::uint64_t memory_cap_bytes = 0; // 0: half of what the machine has available
};

// Outside: SIGKILL that the driver did not send ended each try (engine/watch/outside.h).
enum class ChildEnd { Exited, Signalled, TimedOut, Slow, Memory, Interrupted, Outside, NotStarted };

struct ChildOutcome {
    ChildEnd end = ChildEnd::NotStarted;
    int code = 0; // exit status, signal number, or errno of a failed start
    double seconds = 0;
    std::string stuck; // TimedOut, Slow, Memory, Outside: what was seen
    std::string out_last_line, err_last_line;
    std::string err_end; // the end of stderr, at most 64 KiB: the report of a crash, with its stacks
    std::string json;
};

// Called a few times a second with the time so far and the child's last line of progress. false ends the run, which is
// then Interrupted.
using ChildTick = std::function<bool(double seconds, const std::string &last_line)>;

// The child's command or line, without --json, which only its driver can give.
std::string child_words_forget(std::string text);

ChildOutcome child_run(const ChildSpec &spec, const ChildTick &tick);

} // namespace stress
