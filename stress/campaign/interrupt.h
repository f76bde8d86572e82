// SIGINT, SIGTERM and SIGHUP set a flag, so that a campaign ends in order.
#pragma once

namespace stress {

void interrupt_install();
bool interrupt_requested();

}  // namespace stress
