/* tail_byte.c: the byte after a block is overwritten, and then, rightly, the block's last byte. */
// expect: library=validate cause=overflow grade=found
#include "../program.h"

enum { SIZE = 13 };

PLAINLY static void put_end(char *text, size_t size_bytes)
{
    text[size_bytes] = '.'; /* guilty */
}

PLAINLY static void put_last(char *text, size_t size_bytes)
{
    text[size_bytes - 1] = 'z';
}

int main(void)
{
    earlier_owners(SIZE);
    char *text = (char *)need(malloc(SIZE));
    leave_text(text, SIZE);
    put_end(text, SIZE);
    put_last(text, SIZE);
    free(text);
    earlier_owners(SIZE);
    return 4;
}
