// A litmus test as text, for instance "x=1 rlx; y=1 rel | y acq; x rlx". Threads have a bar between them, steps a semicolon.
//
//   x=1 ORDER          store               x ORDER            load; its value is the thread's next register: r0, r1, ...
//   x+1 ORDER          fetch-add           x:=1 ORDER         exchange
//   x?0:1 ORDER ORDER  compare-exchange    x~0:1 ORDER ORDER  the same, weak; the second order is that of a failure
//   fence ORDER                            if r0=1, if r0>1   otherwise the thread ends here
//   x=r0 ORDER, x=r0+1 ORDER               stores what was read
//
// ORDER: na (not atomic), rlx, acq, rel, ar (acq_rel), sc. Locations of 4 bytes: a b c d x y z w; h has 2 bytes, k has 1, q
// has 8 with halves q0 and q1, o has 16 with halves o0 and o1 of 8.
#pragma once

#include <string>
#include <vector>

#include "order/litmus/step.h"

namespace stress::order {

struct LitmusLocation {
    char name[3];
    unsigned offset, bytes; // in LitmusMemory
};

struct LitmusStep {
    bool is_test = false; // `if`; else `kind`
    bool is_greater = false;
    litmus_kind kind = LITMUS_LOAD;
    unsigned location = 0; // index in litmus_locations()
    litmus_value value = 0, expected = 0; // `expected` is also what a test compares with
    int from_register = -1; // added to the value
    unsigned order = 0, failure = 0;

    bool reads() const { return !is_test && kind != LITMUS_STORE && kind != LITMUS_FENCE; }
};

using LitmusProgram = std::vector<std::vector<LitmusStep>>; // by thread

const std::vector<LitmusLocation> &litmus_locations();

// If the text is none, `error` says why.
LitmusProgram litmus_parse(const std::string &text, std::string &error);
std::string litmus_print(const LitmusProgram &program);

// An outcome: what each thread read, in order, then behind a / the last values of these locations. One digit a value;
// larger ones are hexadecimal in brackets.
std::string litmus_outcome(const std::vector<std::vector<litmus_value>> &registers,
                           const std::vector<litmus_value> &last);

// The locations whose last value belongs to the outcome: those with two stores or more.
std::vector<unsigned> litmus_finals(const LitmusProgram &program);

} // namespace stress::order
