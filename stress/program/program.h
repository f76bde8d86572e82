// Program: a sequence of ops as a value. A file holds one, a recorded run becomes one, and `shrink` makes one smaller.
//
// File order is a total order of the ops. An op on a slot that another thread used last waits for that thread's op;
// nothing else orders the threads. So every list of ops is a program, and any op may be left out.
//
// A recorded program keeps the links of the run, so that it waits exactly where the run waited; its seeded schedule is
// then identical. Law (links_fault): in file order each linked op has its turn, a slot changes its thread only at a
// link, and ops whose turn never comes are at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/mapped.h"
#include "engine/op/op.h"
#include "engine/run/options.h"
#include "engine/run/scenario.h"

namespace stress {

using OpList = std::vector<Op, MappedAllocator<Op>>;

struct Program {
    std::uint32_t threads = 1;
    std::uint64_t seed = 0;
    Schedule schedule = Schedule::Seeded;
    bool check = true;
    std::optional<bool> strict;   // absent: the allocator's default
    std::uint32_t laps = 1;
    std::uint64_t ops_limit = 0;  // ops limit of the recorded run, which decides where its laps end; 0: none
    bool links_kept = false;
    ScheduleMark expected;        // all 0: none
    std::string rule;             // the rule that failed when it was recorded; may be empty
    std::string allocator;        // the allocator that it was recorded on; may be empty
    OpList ops;

    bool expects_schedule() const { return expected != ScheduleMark{}; }
};

inline constexpr std::size_t kProgramOpsMax = std::size_t{16} << 20;      // in a file
inline constexpr std::uint64_t kProgramOpsLimitMax = std::uint64_t{1} << 53;                  // Program::ops_limit
inline constexpr std::size_t kProgramExpandedMax = std::size_t{4} << 20;  // longer expansions are cut

// Clamps the body of each Repeat to the ops that follow it, and to the enclosing body.
void repeats_clamp(OpList &ops);

// Writes out the repeats: the body `size` times, in round i with slot + i * arg. A Repeat inside a body is skipped; its
// body becomes part of the outer one. `note` says what was cut at kProgramExpandedMax, or is empty.
OpList repeats_expand(const OpList &ops, std::string &note);

// Sets the links: 0 on slots of one thread, otherwise 1, 2, 3, ... in file order.
void links_number(OpList &ops);

// One order of several threads' ops that their links allow. Ops whose turn never comes are last; what would follow them
// on their threads is left out.
OpList links_merge(const std::vector<OpList> &threads);

// What is wrong with kept links; empty: nothing.
std::string links_fault(const OpList &ops, std::uint32_t threads);

// The plan that runs the program. `note` as above.
Plan plan_of(const Program &program, std::string &note);

} // namespace stress
