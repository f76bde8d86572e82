// The modes of remote-free in which blocks travel through queues; see remote_free.cc.
#pragma once

namespace stress {

class Run;

// Each takes its share (0 to 1) of the time and ops of the run.
void queue_phase(Run &run, double share);
void free_only_phase(Run &run, double share);
void ring_phase(Run &run, double share);

}  // namespace stress
