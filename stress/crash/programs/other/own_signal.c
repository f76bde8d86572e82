/* own_signal.c: the program's own watchdog ends it with raise(SIGSEGV). */
// expect: library=both cause=killed,abort grade=found
#include <signal.h>

#include "../program.h"

PLAINLY static void give_up(int rounds)
{
    fprintf(stderr, "no progress in %d rounds\n", rounds);
    raise(SIGSEGV); /* guilty */
}

PLAINLY static void watch(const uint64_t *progress)
{
    for (int round = 1; *progress == 0; round++)
        if (round == 3) give_up(round); /* also guilty */
}

int main(void)
{
    earlier_owners(64);
    uint64_t *progress = (uint64_t *)need(calloc(1, sizeof *progress));
    watch(progress);
    return 4;
}
