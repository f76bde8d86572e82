// A conformance check: a function that tests one thing that every malloc must do.
//
// A check runs alone in a forked child of the program, which starts with one thread. So it may use up memory, deny
// system calls or crash. It reaches the malloc under test only through Subject. `items` are the numbers of the failure
// classes that the check covers, with 0 after the last; conform_test.cc checks that together they cover what the suite
// claims.
#pragma once

#include <span>
#include <vector>

#include "conform/subject.h"

namespace stress::conform {

// Slow, Memory and Outside are the runner's: the check did not end within a generous time, took more memory than its cap,
// or was killed from outside each time (engine/watch/outside.h).
enum class Status { Pass, Fail, Skip, Slow, Memory, Outside };

struct Verdict {
    Status status = Status::Pass;
    char detail[320] = ""; // what was wrong, or why the check was skipped
};

struct Check {
    const char *id;
    const char *purpose; // what must hold
    // Who says so: a standard, a manual, with what it says. "quality: ..." where none does, and the suite asks for it.
    const char *rule;
    const char *references; // where allocators had this bug: repo#number, a commit or a release
    int items[4];
    Verdict (*run)(const Subject &subject);
};

Verdict pass();
[[gnu::format(printf, 1, 2)]] Verdict fail(const char *format, ...);
[[gnu::format(printf, 1, 2)]] Verdict skip(const char *format, ...);
Verdict not_provided(const char *entry);

// One table for each file of checks.
std::span<const Check> api_checks();
std::span<const Check> aligned_checks();
std::span<const Check> sized_checks();
std::span<const Check> operator_checks();
std::span<const Check> zero_checks();
std::span<const Check> thread_checks();
std::span<const Check> fork_checks();
std::span<const Check> loading_checks();
std::span<const Check> os_checks();
std::span<const Check> memory_checks();
std::span<const Check> growth_checks();
std::span<const Check> lost_checks();
std::span<const Check> meet_checks();
std::span<const Check> step_checks();
std::span<const Check> number_checks();
std::span<const Check> signal_checks();
std::span<const Check> secure_checks();

// All checks, in the order of the files above.
std::vector<const Check *> all_checks();

} // namespace stress::conform
