// An OpInput as a text program (program/op_text.h), for people: it prints, parses back, and hakmem-stress runs it.
// A program has no stops, so a stop is written as a comment after its op: "free(b3);  # stops at 7 for 3 ops".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fuzz/op_input.h"
#include "program/program.h"

namespace fuzz {

// Without the stops.
stress::Program op_input_program(const OpInput &input);

std::string op_input_print(const OpInput &input);

// Repeats are expanded; links that the text keeps are left out. Returns nothing, or one line that says what is wrong or
// why the program cannot be an input of this shape: too many ops or threads, or an op with a kind, a value or a stop
// that inputs do not have. Law: the text that op_input_print prints gives the same input.
std::string op_input_parse(std::string_view text, const OpShape &shape, OpInput &input);

// Cuts a program of any length, such as the trace of a real program, into inputs of kOpInputCutOps ops in file order.
// Slots and threads get new numbers in each, the threads folded into those that the shape has. Left out: ops that
// inputs do not have (a fork), and those on blocks of an earlier input; realloc of such a block is realloc(NULL, n).
inline constexpr std::size_t kOpInputCutOps = 64; // as long as the inputs of a campaign: MAX_LEN in CMakeLists.txt
std::vector<OpInput> op_input_cut(const stress::OpList &ops, const OpShape &shape);

} // namespace fuzz
