/* poisson.h: the arithmetic of Poisson sampling: each allocated byte is chosen with probability 1/mean, and a block that
 * has a chosen byte is sampled. Written out, since the library links no libm. Pure functions, but for the generator. */
#pragma once

#include <stdint.h>

#include "base/bits.h"

/* The natural logarithm of a finite value above 0, to 1e-9. */
static inline double poisson_log(double value)
{
    union {
        double number;
        uint64_t bits;
    } parts = {value};
    int exponent = (int)(parts.bits >> 52) - 1023;
    parts.bits = (parts.bits & ((1ull << 52) - 1)) | 1023ull << 52; /* 1 to 2 */
    if (parts.number > 1.4142135623730951) {
        parts.number /= 2;
        exponent++;
    }
    /* log m = 2 atanh(s); |s| <= 0.172 */
    double s = (parts.number - 1) / (parts.number + 1), square = s * s;
    double series = 1 + square * (1 / 3.0 + square * (1 / 5.0 + square * (1 / 7.0 + square * (1 / 9.0 + square / 11))));
    return exponent * 0.6931471805599453 + 2 * s * series;
}

/* 1 - exp(-x) for x >= 0, to 1e-12: the probability that a block of x means is sampled. */
static inline double poisson_probability(double x)
{
    if (x > 40) return 1;
    int halvings = 0;
    for (; x > 0.0625; x /= 2) halvings++;
    double missing = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6 * (1 - x / 7))))));
    for (; halvings > 0; halvings--) missing = missing * (2 - missing); /* 1 - (1 - p)^2 */
    return missing;
}

/* -log(1 - x / 2) for x from 0 to 1: at multiples of 1/256, and what it grows by for 2^-24 of such a step. */
enum { POISSON_CELLS = 256, POISSON_FRACTION_BITS = 24 };
struct poisson_table {
    struct {
        double at, slope;
    } cells[POISSON_CELLS];
};

static inline void poisson_table_make(struct poisson_table *table)
{
    for (int i = 0; i < POISSON_CELLS; i++) {
        double at = -poisson_log(1 - (double)i / (2 * POISSON_CELLS));
        double end = -poisson_log(1 - (double)(i + 1) / (2 * POISSON_CELLS));
        table->cells[i].at = at;
        table->cells[i].slope = (end - at) / (1 << POISSON_FRACTION_BITS);
    }
}

/* How far the next chosen byte is, in means: exponentially distributed, to 2e-6 of its mean. At most 45. As often as not
 * it is beyond log 2, from where the rest is distributed likewise: so often as the random number has zeros in front. Below
 * log 2 it is -log(1 - x / 2) for an even x, by the number's last bits. */
static inline double poisson_distance(const struct poisson_table *table, uint64_t *random)
{
    uint64_t drawn = bits_random(random);
    int64_t fraction = (int64_t)(drawn / POISSON_CELLS % (1 << POISSON_FRACTION_BITS));
    uint32_t cell = (uint32_t)(drawn % POISSON_CELLS);
    double below = table->cells[cell].at + table->cells[cell].slope * (double)fraction;
    return below + __builtin_clzll(drawn) * 0.6931471805599453;
}
