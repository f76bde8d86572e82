// The plans of all scenarios, and the options that only one has. The file of each one says at its top what it does and
// which bugs it is likely to find.
#pragma once

#include "engine/run/scenario.h"

namespace stress {

Plan larson_plan(const Setup &setup);
Plan random_mixed_plan(const Setup &setup);
Plan remote_free_plan(const Setup &setup);
Plan mid_plan(const Setup &setup);
Plan large_plan(const Setup &setup);
Plan huge_plan(const Setup &setup);
Plan patterns_plan(const Setup &setup);
Plan realloc_walk_plan(const Setup &setup);
Plan aligned_plan(const Setup &setup);
Plan calloc_plan(const Setup &setup);
Plan fragmentation_plan(const Setup &setup);
Plan purge_cycle_plan(const Setup &setup);
Plan false_sharing_plan(const Setup &setup);
Plan thread_churn_plan(const Setup &setup);
Plan tls_destructors_plan(const Setup &setup);
Plan cancellation_plan(const Setup &setup);
Plan small_stack_plan(const Setup &setup);
Plan fork_plan(const Setup &setup);
Plan signals_plan(const Setup &setup);
Plan oom_plan(const Setup &setup);
Plan dlopen_plan(const Setup &setup);
Plan heaps_plan(const Setup &setup);
Plan profile_plan(const Setup &setup);
Plan idle_plan(const Setup &setup);
Plan limit_plan(const Setup &setup);
Plan leak_plan(const Setup &setup);

std::unique_ptr<OwnOptions> larson_options();
std::unique_ptr<OwnOptions> random_mixed_options();
std::unique_ptr<OwnOptions> remote_free_options();

}  // namespace stress
