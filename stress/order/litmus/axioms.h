// The same memory model as axioms, for comparison: enumerates the execution graphs of a small litmus test, with each way to
// read and each modification order, and keeps those that the axioms allow. It shares nothing with the runtime.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "order/litmus/program.h"

namespace stress::order {

enum class SerialRule : std::uint8_t {
    cxx20, // [atomics.order] and [intro.races] of C++20, as P0668R5 wrote them
    rc11, // acyclic psc (Lahav et al., PLDI 2017, section 3.4)
};

struct AxiomRules {
    SerialRule serial = SerialRule::cxx20;
    bool own_stores_release = false; // RC11's and C11's release sequences; false: C++20's
};

struct LitmusAllowed {
    std::set<std::string> outcomes; // "race": the program's behaviour is undefined
    std::uint64_t executions = 0;
    std::string gave_up; // why the test is not one for the axioms; empty: it is
};

LitmusAllowed litmus_allowed(const LitmusProgram &program, AxiomRules rules);

} // namespace stress::order
