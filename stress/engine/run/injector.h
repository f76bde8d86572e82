// Disturbs a run as its plan's Injection says, and then checks that the subject recovers. Called by the main thread.
#pragma once

#include "engine/op/process_counts.h"
#include "engine/run/injection.h"
#include "engine/run/testbed.h"
#include "engine/subject/whitebox.h"

namespace stress {

class Injector {
  public:
    Injector(Testbed &testbed, const Injection &injection) : testbed_(testbed), injection_(injection) {}

    // Before the first lap, and once everything is freed.
    void begin();
    void end();

    // Around each lap, once its threads have started and once they have ended.
    void limit_begin();
    void limit_end();

    // What was injected.
    const ProcessFigures &figures() const { return figures_; }

  private:
    void hold_what_is_left();
    void let_go();

    Testbed &testbed_;
    const Injection injection_;
    ProcessFigures figures_;
    InUse in_use_before_;  // by the subject's books
    void *held_ = nullptr; // blocks that the run must do without
};

} // namespace stress
