/* counters.c: the counters of threads without an owner. See counters.h. Not a part of the release library. */
#include "base/counters.h"

struct counters counters_heapless;

void counters_heapless_add(enum counter counter, uint32_t class_index)
{
    atomic_fetch_add_explicit(&counters_heapless.values[counter][class_index], 1, memory_order_relaxed);
}
