// The text form of a program: it reads like C, one op a line.
//
//     # hakmem ops 1
//     threads 2
//     seed 42
//     schedule seeded
//     b3 = malloc(100);
//     T1: b4 = aligned_alloc(64, 128);
//     repeat 1000 step 1 {
//         b0 = malloc(10);
//     }
//     free(b3);
//
// T1 is the thread, none is T0. A size may be SIZE_MAX-n. Comments begin with # or //. Where links are kept, an op
// ends in "link N". Law: program_parse(program_print(p)) is p.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace stress {

using Text = std::vector<char, MappedAllocator<char>>;

// One op, without a newline: "T1: free(b3);". For a Repeat only its head: "repeat 10 step 1 {".
std::string op_print(const Op &op);

Text program_print(const Program &program);

// Empty, or what is wrong: "line 7: expected ')' after the size, found ','".
std::string program_parse(std::string_view text, Program &program, std::size_t ops_max = kProgramOpsMax);

}  // namespace stress
