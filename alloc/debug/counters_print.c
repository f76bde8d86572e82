/* counters_print.c: see counters_print.h. Not a part of the release library. */
#include "debug/counters_print.h"

#include <stdbool.h>

#include "report/output.h"
#include "slab/owner.h"

uint64_t counters_of_class(enum counter counter, uint32_t class_index)
{
    uint64_t sum = counter_get(&counters_heapless, counter, class_index);
    for (uint32_t id = 1; id <= owner_count(); id++) {
        const struct owner *owner = owner_with_id(id);
        if (owner != NULL) sum += counter_get(&owner->counters, counter, class_index);
    }
    return sum;
}

uint64_t counters_of_all(enum counter counter)
{
    uint64_t sum = 0;
    for (uint32_t class_index = 0; class_index < COUNTED_COUNT; class_index++)
        sum += counters_of_class(counter, class_index);
    return sum;
}

static void print_class(struct output *out, uint32_t class_index)
{
    uint64_t values[COUNTER_COUNT];
    bool any = false;
    for (uint32_t counter = 0; counter < COUNTER_COUNT; counter++) {
        values[counter] = counters_of_class((enum counter)counter, class_index);
        any = any || values[counter] != 0;
    }
    if (!any) return;
    if (class_index < CLASS_COUNT) {
        const char *kind = class_index >= CLASS_ALIGNED_FIRST ? " aligned" : "";
        output_print(out, "hakmem: class %6u%s", sizeclass_bytes(class_index), kind);
    } else {
        output_print(out, "hakmem: class %6s", class_index == COUNTED_RUN ? "run" : "huge");
    }
#define X(name, text) \
    if (values[COUNTER_##name] != 0) output_print(out, " %s=%llu", #name, (unsigned long long)values[COUNTER_##name]);
    COUNTERS(X)
#undef X
    output_print(out, "\n");
}

void counters_print(struct output *out)
{
#define X(name, text)                                              \
    output_print(out, "hakmem: counter %-16s %12llu  %s\n", #name, \
                 (unsigned long long)counters_of_all(COUNTER_##name), text);
    COUNTERS(X)
#undef X
    for (uint32_t class_index = 0; class_index < COUNTED_COUNT; class_index++) print_class(out, class_index);
}
