/* large_local.c: a function has a local picture of 16 MiB, on a stack of 8 MiB. */
// expect: library=both cause=stack_overflow grade=found
#include "../program.h"

enum { SIDE = 2048 };

struct picture {
    uint32_t pixels[SIDE][SIDE];
};

PLAINLY static uint32_t first_pixel(const struct picture *picture)
{
    return picture->pixels[0][0];
}

PLAINLY static uint32_t scale(const uint32_t *from, int by)
{
    struct picture picture; /* guilty function */
    for (int i = 0; i < SIDE; i += by) picture.pixels[i][i] = picture.pixels[0][i] = from[i & 15];
    return first_pixel(&picture) + 1;
}

int main(void)
{
    earlier_owners(64);
    uint32_t *from = (uint32_t *)need(calloc(16, sizeof *from));
    return scale(from, 1) == 0 ? 4 : 5;
}
