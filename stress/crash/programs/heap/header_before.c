/* header_before.c: a length is written before a buffer that has no header; the validate library finds it when the
 * buffer is freed. */
// expect: library=validate cause=overflow grade=found
#include "../program.h"

PLAINLY static char *buffer_make(size_t size_bytes, size_t header_bytes)
{
    return (char *)need(malloc(size_bytes)) + header_bytes;
}

PLAINLY static void buffer_set_length(char *buffer, uint64_t length)
{
    uint64_t *header = (uint64_t *)(void *)buffer;
    header[-1] = length; /* guilty */
}

PLAINLY static void buffer_free(char *buffer, size_t header_bytes)
{
    free(buffer - header_bytes);
}

int main(void)
{
    earlier_owners(64);
    for (int i = 0; i < 3; i++) {
        size_t header_bytes = i < 2 ? 8 : 0; /* one buffer was made in another way */
        char *buffer = buffer_make(64, header_bytes);
        buffer_set_length(buffer, 56);
        buffer_free(buffer, header_bytes);
    }
    return 4;
}
