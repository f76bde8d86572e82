// Published litmus tests with their published answers.
#pragma once

#include <span>

namespace stress::order {

struct LitmusTest {
    const char *name, *program; // program.h
    const char *asked; // the outcome that the source asks about
    bool is_allowed; // what the source says about it
    int executions; // that GenMC counts; 0: it has no such test
    const char *source; // table.cc spells out the abbreviations
    bool own_stores_release = false; // Rules
};

std::span<const LitmusTest> litmus_tests();

} // namespace stress::order
