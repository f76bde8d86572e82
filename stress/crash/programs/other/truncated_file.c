/* truncated_file.c: a file is truncated while it is mapped. */
// expect: library=both cause=unmapped,out_of_range grade=likely
#include <sys/mman.h>

#include "../program.h"

enum { FILE_BYTES = 1 << 16 };

PLAINLY static char *map_file(int file)
{
    void *start = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (start == MAP_FAILED) _exit(3);
    memset(start, 'f', FILE_BYTES);
    return (char *)start;
}

PLAINLY static void set_size(int file, off_t size_bytes)
{
    if (ftruncate(file, size_bytes) != 0) _exit(3); /* guilty */
}

PLAINLY static unsigned sum_of(const char *bytes)
{
    unsigned sum = 0;
    for (size_t i = 0; i < FILE_BYTES; i++) sum += (unsigned char)bytes[i]; /* also guilty */
    return sum;
}

int main(void)
{
    earlier_owners(64);
    int file = memfd_create("log", 0);
    set_size(file, FILE_BYTES);
    char *bytes = map_file(file);
    unsigned before = sum_of(bytes);
    set_size(file, FILE_BYTES / 2);
    return sum_of(bytes) == before ? 4 : 5;
}
