// Programs as files: text (op_text.h) or binary; the first bytes say which.
//
// Binary, little-endian: a header of 64 bytes, the names (rule and allocator, each ended by 0), and 16 bytes an op:
// kind, arg, thread (2), slot (4), size (6), link (2). The checksum covers everything. The header says how many kinds
// of op existed when the file was written, so that kinds added later do not change the meaning of old files.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "program/op_text.h"
#include "program/program.h"

namespace stress {

inline constexpr std::size_t kProgramFileBytesMax = std::size_t{256} << 20;

using Bytes = std::span<const unsigned char>;

Text program_encode(const Program &program, std::size_t kind_count = kOpKindCount);

// Empty, or what is wrong with the bytes.
std::string program_decode(Bytes bytes, Program &program);

// For fuzzers: reads any bytes as a program. Every 16 bytes are an op, folded into range; a header is used as far as it
// makes sense; a partial op at the end is dropped.
Program program_decode_bytes(Bytes bytes);

// One line that names the file and says what is wrong; empty: nothing.
std::string program_read(const std::string &path, Program &program);
std::string program_write(const std::string &path, std::span<const char> content);

} // namespace stress
