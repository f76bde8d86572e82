/* foreign_pointer.c: WHERE: frees a pointer that no malloc returned: into a mapping, or to unmapped memory. */
#include "misuse.h"

#include <sys/mman.h>

int main(int argc, char **argv)
{
    const char *where = argument(argc, argv, 1);
    allocate(10);
    char *pointer = (char *)0xdead0000beef0000;
    if (strcmp(where, "low") == 0) pointer = (char *)16;
    if (strcmp(where, "mapping") == 0)
        pointer = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(pointer, "");
    free(opaque(pointer));
    return went_on();
}
