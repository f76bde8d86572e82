// Files of a campaign, read and written only with system calls. After a run on a broken malloc nothing here may
// allocate, so there is no stdio and no opendir. A function that fails says why and returns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stress {

// Reads the whole file. Returns what is wrong, or nothing; refuses a file above `bytes_max`.
std::string file_read(const std::string &path, std::string &text, std::uint64_t bytes_max = std::uint64_t{64} << 20);

// Replaces the whole file: after a crash at any moment it holds the old text or the new text; once this has returned,
// the new one. Returns what is wrong, or nothing.
std::string file_replace(const std::string &path, const std::string &text);

// Makes the directory and its parents. Returns what is wrong, or nothing.
std::string directory_make(const std::string &path);

// The names in a directory, sorted, without "." and ".."; empty if it cannot be read.
std::vector<std::string> directory_names(const std::string &path);

bool file_exists(const std::string &path);

}  // namespace stress
