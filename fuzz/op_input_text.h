// An OpInput as a text program (program/op_text.h), for people: it prints, parses back, and hakmem-stress runs it.
// A stop stands in a comment behind its op, since a program has none: "free(b3);  # stops at 7 for 3 ops".
#pragma once

#include <string>
#include <string_view>

#include "fuzz/op_input.h"
#include "program/program.h"

namespace fuzz {

// Without the stops.
stress::Program op_input_program(const OpInput &input);

std::string op_input_print(const OpInput &input);

// Repeats are written out; links that the text keeps are left out. Empty, or in one line what is wrong, or why the
// program is no input of this shape: it has too many ops or threads, or an op of a kind, a range or with a stop that
// inputs do not have. Law: what op_input_print prints gives the same input.
std::string op_input_parse(std::string_view text, const OpShape &shape, OpInput &input);

}  // namespace fuzz
