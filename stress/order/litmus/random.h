// Litmus tests drawn at random, to compare the runtime with the axioms on more shapes than were ever published.
#pragma once

#include <cstdint>
#include <random>

#include "order/litmus/program.h"

namespace stress::order {

// Two or three threads, at most `steps` steps, so few that the axioms can be enumerated.
LitmusProgram litmus_random(std::mt19937_64 &random, unsigned steps);

} // namespace stress::order
