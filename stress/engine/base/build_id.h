// The GNU build id of a file, to tell whether it is the one that a record or a report names.
#pragma once

#include <string>

namespace stress {

// In hexadecimal; empty: it has none, or is no ELF file of 64 bits.
std::string file_build_id(const std::string &path);

} // namespace stress
