// The mode of remote-free in which owners end before their blocks are freed; see remote_free.cc.
#pragma once

namespace stress {

class Run;

void owner_exit_phase(Run &run, double share);

}  // namespace stress
