// Files, read and written only with system calls. After a run on a broken malloc nothing here may allocate, so there is
// no stdio and no opendir. A function that fails says why and returns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stress {

// Reads the whole file. Returns what is wrong, or nothing; refuses a file above `bytes_max`.
std::string file_read(const std::string &path, std::string &text, std::uint64_t bytes_max = std::uint64_t{64} << 20);

// Replaces the whole file: after a crash at any moment it holds the old text or the new text; once this has returned,
// the new one. Returns what is wrong, or nothing.
std::string file_replace(const std::string &path, const std::string &text, unsigned mode = 0666);

// Adds the text at the end, on a line of its own, with one write: of processes that add at once none loses anything. Makes
// a file that is not there, and writes through a symbolic link. Returns what is wrong, or nothing. An empty text adds
// nothing: it tells whether one could be added.
std::string file_append(const std::string &path, const std::string &text);

// Whether the path may be replaced by a new file: it is a regular file, or does not exist. A device, a pipe or an open
// file by its number must be written in place.
bool file_is_replaceable(const std::string &path);

// A result of a run, for --json. result_try, before the run: says what is wrong with the path, so that an hour of work
// does not end in a file that cannot be written. result_prepare: the same, and removes the result of an earlier run,
// which nobody must take for this one's. result_write: as file_replace; to stdout for "-", and in place where the path is a device or a pipe.
std::string result_try(const std::string &path);
std::string result_prepare(const std::string &path);
std::string result_write(const std::string &path, const std::string &text, unsigned mode = 0666);

// Makes the directory and its parents. Returns what is wrong, or nothing.
std::string directory_make(const std::string &path);

// The names in a directory, sorted, without "." and ".."; empty if it cannot be read.
std::vector<std::string> directory_names(const std::string &path);

bool file_exists(const std::string &path);

} // namespace stress
