/* malloc_failed.c: a picture's size comes from a file with a wrong value; malloc refuses, and the program does not
 * check. */
// expect: library=both cause=null_stored grade=found
#include "../program.h"

struct picture {
    uint64_t width, height;
    char *pixels;
    char rest[40];
};

PLAINLY static void picture_make(struct picture *picture, uint64_t width, uint64_t height)
{
    picture->width = width;
    picture->height = height;
    picture->pixels = (char *)malloc(width * height); /* guilty */
}

PLAINLY static void picture_clear(const struct picture *picture)
{
    memset(picture->pixels, 1, picture->width * picture->height); /* also guilty */
}

PLAINLY static void picture_free(struct picture *picture)
{
    free(picture->pixels);
    picture->pixels = NULL;
}

int main(void)
{
    static volatile uint64_t huge = 1ull << 30;
    earlier_owners(sizeof(struct picture));
    struct picture *picture = (struct picture *)need(calloc(1, sizeof *picture));
    picture_make(picture, 10, 10);
    picture_clear(picture);
    picture_free(picture);
    picture_make(picture, huge, huge);
    picture_clear(picture);
    return 4;
}
