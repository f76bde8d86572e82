// Runs a program: what its threads do, and what must hold when all of them have ended.
#pragma once

#include "order/simulate/program.h"

namespace stress::order {

// The scenario that runs it. The program must outlive it.
Scenario program_scenario(const Program &program, const Subject &subject);
void program_before_run();

} // namespace stress::order
