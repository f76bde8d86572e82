// What a process holds when a run has ended and every block is freed: the rule `remains`.
//
// A malloc may keep caches, so nothing is compared with an empty process. A run is repeated instead, in one
// process, with the same seed. Caches fill in the first rounds; what each later round adds is lost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/mapped.h"

namespace stress {

// Figures of the process, without the stacks that libc keeps for later threads. "open" memory can be read or written,
// "closed" memory cannot: reserved address space, guard pages.
enum Figure : std::size_t {
    kOpenMappings,
    kClosedMappings,
    kFileMappings,
    kBytes, // of address space, open or closed
    kFileBytes,
    kDescriptors,
    kKeys,    // pthread_key_create
    kThreads,
    kUsedBytes, // in use by the subject's own books; 0 if it has none
    kResidentBytes, // of memory that no file backs, in pages
    kFigureCount
};
using Held = std::array<std::uint64_t, kFigureCount>;

// With fewer rounds a leak cannot be told from a cache that fills. gperftools 2.10 took new address space in three of four
// rounds, and jemalloc 5.3.0 in each of four, before they stopped; a strict run is for mallocs that fill in one round.
inline constexpr std::uint32_t kRepeatsMin = 5, kRepeatsMinLenient = 9;

// Asks the subject for everything that it can give up, then takes the figures. No thread is in the subject, and the
// harness has given its memory back.
Held held_now();

// Adds a mapping: a line of /proc/PID/maps. In sanitizer builds shadow is left out.
void held_add_mapping(Held &held, const char *line);

// Whether a mapping that starts here is a sanitizer's shadow, on x86-64: between the two parts of the address space in
// which programs are (compiler-rt's tsan_platform.h, Mapping48AddressSpace; asan_mapping.h). Shadow grows when new
// addresses are used, wherever they are.
bool is_shadow(unsigned long start);

using Rounds = std::vector<Held, MappedAllocator<Held>>;

// What grew in each round after the first (resident bytes: by 64 KiB a thread); empty: nothing did, or there are too few rounds. In a strict run also what is
// larger at the end than after the second round by more than threads that meet by chance explain.
std::string remains_fault(const Rounds &rounds, bool strict, std::uint32_t threads);

// One line: the figures after each round.
std::string remains_text(const Rounds &rounds);

} // namespace stress
