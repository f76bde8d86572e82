// Figures of the process that a check runs in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress::conform {

std::size_t resident_bytes();
std::size_t address_space_bytes();
std::size_t data_bytes();  // writable private memory, as RLIMIT_DATA counts it
std::size_t first_free_descriptor(); // grows where descriptors are lost
long mapping_count();
bool mapped_below(std::uintptr_t limit);

}  // namespace stress::conform
