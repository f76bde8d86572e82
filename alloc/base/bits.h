/* bits.h: arithmetic on words of bits and on powers of two. Pure functions; any layer may call them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* align is a power of two; the caller has made sure that value + align does not overflow. */
static inline size_t round_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/* value > 0. */
static inline uint32_t log2_floor(uint64_t value)
{
    return 63u - (uint32_t)__builtin_clzll(value);
}

/* The last step of SplitMix64 (Steele, Lea, Flood): each bit of the value changes about half of the result's. One to
 * one, and 0 stays 0. */
static inline uint64_t bits_mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* The next of Marsaglia's xorshift64 (13, 7, 17). *random is not 0, nor is what it returns. */
static inline uint64_t bits_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Bits [first, first + count), 1 <= count, first + count <= 64. */
static inline uint64_t bits_range(uint32_t first, uint32_t count)
{
    return (~0ull >> (64 - count)) << first;
}

/* Bit i of the result is set where bits i to i + count - 1 of mask are all set, 1 <= count <= 64.
 * Each step doubles the length that is known (Warren, Hacker's Delight, 6-2). */
static inline uint64_t bits_runs(uint64_t mask, uint32_t count)
{
    uint32_t have = 1;
    while (have < count) {
        uint32_t step = count - have < have ? count - have : have;
        mask &= mask >> step;
        have += step;
    }
    return mask;
}

/* The CRC-32 of zip and gzip, of bytes behind those that have this one; 0: of none. A bit at a time, without a table that a program
 * which crashes may have damaged: 256 KiB take a few milliseconds. */
static inline uint32_t bits_crc(uint32_t crc, const void *bytes, size_t size_bytes)
{
    const unsigned char *byte = (const unsigned char *)bytes; /* C++ includes this too */
    crc = ~crc;
    for (size_t i = 0; i < size_bytes; i++) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}
