/* zeroed_divisor.c: a text is cleared a few bytes too far, over the count behind it, by which the program later
 * divides. */
// expect: library=release cause=division_by_zero,overflow grade=likely
// build: -O0
#include "../program.h"

enum { SIZE = 48, BLOCKS = 200 };

struct stats {
    uint64_t count, sum;
    char rest[SIZE - 16];
};

PLAINLY static void clear(char *text, size_t size_bytes)
{
    for (volatile char *at = text, *end = at + size_bytes; at != end; at++) *at = 0; /* guilty */
}

PLAINLY static uint64_t average(const struct stats *stats)
{
    return stats->sum / stats->count;
}

int main(void)
{
    char *text = (char *)need(malloc(SIZE));
    struct stats *stats = NULL;
    for (int i = 0; i < BLOCKS && stats == NULL; i++) {
        char *next = (char *)need(malloc(SIZE));
        if (next == text + SIZE) {
            stats = (struct stats *)(void *)next;
        } else {
            text = next;
        }
    }
    if (stats == NULL) return 3;
    stats->count = 2;
    stats->sum = 8;
    if (average(stats) != 4) return 3;
    clear(text, SIZE + 8);
    return average(stats) == 4 ? 4 : 5;
}
