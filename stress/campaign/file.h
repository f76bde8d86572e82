// Files of a campaign, read and written with system calls alone: after a run on a broken malloc nothing here may
// need a block of it, so no stdio, no opendir. Every function is total: it says what is wrong and goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stress {

// The file's bytes. Returns what is wrong, or nothing; a file above `bytes_max` is refused.
std::string file_read(const std::string &path, std::string &text, std::uint64_t bytes_max = std::uint64_t{64} << 20);

// Replaces the file as a whole: after a crash at any moment it holds the old text or the new, and the new one once
// this has returned. Returns what is wrong, or nothing.
std::string file_replace(const std::string &path, const std::string &text);

// Makes the directory and those above it. Returns what is wrong, or nothing.
std::string directory_make(const std::string &path);

// Names in a directory, sorted, without "." and ".."; empty when it cannot be read.
std::vector<std::string> directory_names(const std::string &path);

bool file_exists(const std::string &path);

}  // namespace stress
