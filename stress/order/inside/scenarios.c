/* scenarios.c: the table of scenarios.h. */
#include "order/inside/scenarios.h"

#include "base/policy.h"

const struct order_scenario order_scenarios[] = {
#define ROW(group, name, hunts) \
    {group ":" #name, hunts, scenario_##name##_begin, scenario_##name, scenario_##name##_law},
#define X(name, hunts) ROW("in", name, hunts)
    SCENARIO_NAMES(X)
#undef X
#define X(name, hunts) ROW("checked", name, hunts)
#if HAKMEM_DEBUG_VALIDATION
        SCENARIO_NAMES_CHECKED(X)
#endif
#undef X
            {NULL, NULL, NULL, NULL, NULL}};
