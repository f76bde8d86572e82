// Names of allocators in tables and figures. Two libraries with one file name get labels that tell them apart.
#pragma once

#include <string>
#include <vector>

#include "campaign/record.h"

namespace stress {

// One label for each allocator, all different: "libc" for system, a library's file name, and as much of its folders as
// it takes to be unique. A label of more than `length_max` characters loses its beginning, unless that would make two
// alike. The allocators are different from each other.
std::vector<std::string> allocator_labels(const std::vector<std::string> &allocators, std::size_t length_max = 28);

// Gives each run its label, unique among the allocators of these runs.
void label_runs(std::vector<RunRecord> &runs);

} // namespace stress
