/* never_written.c: SIZE: follows a pointer that nobody wrote. With HAKMEM_FAILFAST_FILL=165. */
#include "misuse.h"

int main(int argc, char **argv)
{
    char **pointers = (char **)(void *)allocate(size_argument(argc, argv, 1));
    expect((void *)0xa5a5a5a5a5a5a5a5, "a pointer that was read from where nothing was written");
    opaque(pointers[1])[0] = 1;
    return went_on();
}
