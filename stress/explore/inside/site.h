/* site.h: a place in the allocator's sources that makes an atomic access. */
#pragma once

#include <stdint.h>

struct stress_site {
    const char *what, *file, *function; /* what: the kind of access; the file as the compiler was given it */
    uint32_t line;
    /* For the explorer: the threads that made the access since forgotten, and those of them to whom the word was one that
     * several threads access; a bit each. */
    uint8_t threads, threads_shared;
    uint16_t unused;
};

/* Sites stand in one section, which the linker names the ends of. The alignment is the size, so that there is no gap. */
#define STRESS_SITE __attribute__((section("stress_sites"), used, aligned(32)))

#ifdef __cplusplus
static_assert(sizeof(stress_site) == 32, "an array in the section");
extern "C" {
#else
_Static_assert(sizeof(struct stress_site) == 32, "an array in the section");
#endif

/* In fiber.cc. */
void stress_fiber_point(struct stress_site *site, const volatile void *address);

#ifdef __cplusplus
}
#endif
