/* poisson.h: the arithmetic of Poisson sampling: each allocated byte is chosen with probability 1/mean, and a block that
 * has a chosen byte is sampled. In fixed point, since malloc must work whatever the program has set for floating-point
 * numbers: that inexact results trap, say. Numbers are multiples of 2^-56. Pure functions, but for the generator. */
#pragma once

#include <stdint.h>

#include "base/bits.h"

enum { POISSON_LOG2 = 56, POISSON_MOST = 64 };
#define POISSON_ONE (1ull << POISSON_LOG2)
#define POISSON_LOG_OF_2 49946518145322873ull

/* dividend * 2^bits / divisor, rounded down, if that fits. bits is a multiple of 8; divisor at most 2^56. */
static inline uint64_t poisson_divide(uint64_t dividend, uint64_t divisor, uint32_t bits)
{
    uint64_t quotient = dividend / divisor, rest = dividend % divisor;
    for (; bits > 0; bits -= 8) {
        rest <<= 8;
        quotient = quotient << 8 | rest / divisor;
        rest %= divisor;
    }
    return quotient;
}

/* dividend / divisor, and POISSON_MOST for what is more: exp(-64) is nothing. */
static inline uint64_t poisson_ratio(uint64_t dividend, uint64_t divisor)
{
    if (dividend / divisor >= POISSON_MOST) return POISSON_MOST * POISSON_ONE;
    return poisson_divide(dividend, divisor, POISSON_LOG2);
}

/* a * b / 2^bits, if that fits. */
static inline uint64_t poisson_times(uint64_t a, uint64_t b, uint32_t bits)
{
    return (uint64_t)((unsigned __int128)a * b >> bits);
}

/* -log(1 - part / whole) for part / whole from 0 to 1/2, to 2e-15. */
static inline uint64_t poisson_log(uint64_t part, uint64_t whole)
{
    /* 2 atanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...); s <= 1/3 */
    const uint64_t s = poisson_ratio(part, 2 * whole - part), square = poisson_times(s, s, POISSON_LOG2);
    uint64_t power = s, sum = 0;
    for (uint32_t odd = 1; power != 0; odd += 2) {
        sum += power / odd;
        power = poisson_times(power, square, POISSON_LOG2);
    }
    return 2 * sum;
}

/* The means that a block must have to be chosen with probability 1 / number: -log(1 - 1 / number). For 1 it is POISSON_MOST,
 * which is more than any distance, so each block is chosen. */
static inline uint64_t poisson_one_in(uint32_t number)
{
    return number == 1 ? POISSON_MOST * POISSON_ONE : poisson_log(1, number);
}

/* 1 - exp(-x): the probability that a block of x means is sampled. At least 2^-56. */
static inline uint64_t poisson_probability(uint64_t x)
{
    if (x > 40 * POISSON_ONE) return POISSON_ONE;
    uint32_t halvings = 0;
    for (; x > POISSON_ONE / 16; x /= 2) halvings++;
    uint64_t missing = POISSON_ONE; /* of x (1 - x/2 (1 - x/3 (1 - ...))), from the inside */
    for (uint32_t term = 9; term > 1; term--) missing = POISSON_ONE - poisson_times(x, missing, POISSON_LOG2) / term;
    missing = poisson_times(x, missing, POISSON_LOG2);
    for (; halvings > 0; halvings--) /* 1 - (1 - p)^2 */
        missing = poisson_times(missing, 2 * POISSON_ONE - missing, POISSON_LOG2);
    return missing != 0 ? missing : 1;
}

/* -log(1 - x / 2) for x from 0 to 1: at multiples of 1/256, and what it grows by for 2^-24 of such a step. */
enum { POISSON_CELLS = 256, POISSON_FRACTION_BITS = 24 };
struct poisson_table {
    struct {
        uint64_t at, slope;
    } cells[POISSON_CELLS];
};

static inline void poisson_table_make(struct poisson_table *table)
{
    for (uint32_t i = 0; i < POISSON_CELLS; i++) {
        const uint64_t at = poisson_log(i, 2 * POISSON_CELLS), end = poisson_log(i + 1, 2 * POISSON_CELLS);
        table->cells[i].at = at;
        table->cells[i].slope = (end - at) >> POISSON_FRACTION_BITS;
    }
}

/* How far the next chosen byte is, in means: exponentially distributed, to 2e-6 of its mean. At most 45. As often as not
 * it is beyond log 2, from where the rest is distributed likewise: so often as the random number has zeros in front. Below
 * log 2 it is -log(1 - x / 2) for an even x, by the number's last bits. */
static inline uint64_t poisson_distance(const struct poisson_table *table, uint64_t *random)
{
    const uint64_t drawn = bits_random(random);
    const uint64_t fraction = drawn / POISSON_CELLS % (1u << POISSON_FRACTION_BITS);
    const uint32_t cell = (uint32_t)(drawn % POISSON_CELLS);
    const uint64_t below = table->cells[cell].at + table->cells[cell].slope * fraction;
    return below + (uint32_t)__builtin_clzll(drawn) * POISSON_LOG_OF_2;
}
