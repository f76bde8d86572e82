/* counters_print.h: the counters of the debug-validation build, summed over all heaps. */
#pragma once

#include <stdint.h>

#include "base/counters.h"

struct output;

/* The value of a counter for one class (or COUNTED_RUN, COUNTED_HUGE), and for all of them. Any thread. */
uint64_t counters_of_class(enum counter counter, uint32_t class_index);
uint64_t counters_of_all(enum counter counter);

/* Prints a line for each counter, summed over the classes, and then a line for each class that was used. */
void counters_print(struct output *out);
