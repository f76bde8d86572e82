/* poisson.h: the arithmetic of Poisson sampling: each allocated byte is chosen with probability 1/mean, and a block that
 * has a chosen byte is sampled. Written out, since the library links no libm. Pure functions, but for the generator. */
#pragma once

#include <stdint.h>

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

/* Marsaglia's xorshift; *random is not 0. */
static inline uint64_t poisson_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* The bytes until the next chosen one, exponentially distributed. At most 45 means. */
static inline double poisson_distance(uint64_t *random, double mean_bytes)
{
    double even = (double)((poisson_random(random) >> 11) + 1) * 0x1p-53;
    return -poisson_log(even) * mean_bytes;
}
