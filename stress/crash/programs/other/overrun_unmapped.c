/* overrun_unmapped.c: the upper half of a mapping is unmapped, and the lower half is read past its end. */
// expect: library=both cause=unmapped,wild_read,out_of_range grade=likely
#include "../program.h"

#include <sys/mman.h>

enum { BYTES = 1 << 20 };

PLAINLY static void give_back(unsigned char *upper)
{
    munmap(upper, BYTES);
}

PLAINLY static uint64_t sum_of(const unsigned char *bytes, size_t count)
{
    uint64_t sum = 0; /* also guilty function */
    for (const unsigned char *end = bytes + count; bytes != end; bytes++) sum += *bytes;
    return sum;
}

int main(void)
{
    unsigned char *both =
        (unsigned char *)mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED) return 3;
    give_back(both + BYTES);
    return sum_of(both, BYTES + 200) == 0 ? 4 : 5; /* guilty */
}
