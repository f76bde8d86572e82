// Litmus tests drawn at random, to compare the runtime with the axioms on more shapes than were ever published.
#pragma once

#include <cstdint>
#include <random>

#include "order/litmus/program.h"

namespace stress::order {

// Two or three threads, so short that the axioms can be enumerated. Half of them are critical cycles of up to 9 steps, the
// others any `steps` steps.
LitmusProgram litmus_random(std::mt19937_64 &random, unsigned steps);

} // namespace stress::order
