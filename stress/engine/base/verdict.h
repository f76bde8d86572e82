// The exit status of a program whose results may be lost: writing them is part of the verdict.
//
// Exit status: 0 pass, 1 fail, 2 bad input, or results that cannot be written and no verdict, 3 a verdict whose results
// were lost, 77 skipped.
#pragma once

#include <string>

namespace stress {

inline constexpr int kExitBadInput = 2, kExitLost = 3;

// There is a verdict: "pass", "fail", "skipped". Main thread, or the one that ends the process.
void verdict_reached(const char *verdict);

// A result could not be kept. Prints why, as one line on stderr.
void result_lost(const std::string &why);

// What the program exits with if its work ended with this status: unchanged unless a result, or text for stdout, was
// lost.
int verdict_status(int status);

} // namespace stress
