// The one judge of libraries: whether a program runs with this library in front of it, and gets its malloc from it.
#pragma once

#include <string>
#include <vector>

namespace stress {

// Holds the library's path in a process that was already started with it, so that it does not start again.
inline constexpr const char *kSubjectGuard = "HAKMEM_STRESS_SUBJECT";

// What is wrong with the file as a shared library of this machine: not one, cut short, or for another processor; empty
// if nothing is. The loader itself would only print a warning and continue with libc's malloc, or die of SIGBUS.
std::string library_fault(const std::string &path);

// The environment with the library in front of what is preloaded already, for a process that need not start again.
std::vector<std::string> subject_environment(const std::string &path);

// The words' pointers, and a null pointer: as exec takes them. They are valid as long as the words are.
std::vector<char *> pointers_to(std::vector<std::string> &words);

// Starts this program with the library preloaded, as `probe`. Returns what is wrong, in one line, or nothing. Whatever
// the library prints or does there, this process continues.
std::string subject_probe(const std::string &path, const std::string &allocator);

} // namespace stress
