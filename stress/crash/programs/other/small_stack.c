/* small_stack.c: a thread with a small stack calls, a few levels deep, a function that needs a quarter of it. */
// expect: library=both cause=stack_overflow grade=found
#include "../program.h"

enum { STACK_BYTES = 128 << 10, ROOM_BYTES = 24 << 10 };

PLAINLY static unsigned scan(const char *text, int depth)
{
    char room[ROOM_BYTES]; /* guilty function */
    memset(room, depth, sizeof room);
    if (*text == 0) return (unsigned char)room[depth];
    return scan(text + 1, depth + 1) + (unsigned char)room[depth];
}

static void *scan_in_thread(void *text)
{
    /* The library gives each thread the stack for its crash handler at the thread's first malloc. */
    char *copy = copy_text((const char *)text);
    return scan(copy, 0) == 0 ? NULL : text;
}

int main(void)
{
    static char low[] = "ab", deep[] = "abcdefgh";
    pthread_attr_t attributes;
    pthread_t thread;
    earlier_owners(64);
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0) return 3;
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&thread, &attributes, scan_in_thread, i == 0 ? low : deep) != 0) return 3;
        pthread_join(thread, NULL);
    }
    return 4;
}
