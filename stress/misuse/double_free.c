/* double_free.c: SIZE HOW: frees a block twice: in the same thread, in another thread, or while the block is in a
 * cache. */
#include "misuse.h"

#include <malloc.h>
#include <pthread.h>

static void *free_it(void *block)
{
    pthread_setname_np(pthread_self(), "freer");
    free(block);
    return NULL;
}

static void free_in_thread(void *block)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, free_it, block) != 0) give_up("pthread_create failed");
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1);
    const char *how = argument(argc, argv, 2);
    char *block = allocate(size), *other = allocate(size);
    expect(block, "");
    if (strcmp(how, "other") == 0) {
        free(block);
        free_in_thread(block);
    } else if (strcmp(how, "others") == 0) {
        free_in_thread(block);
        free_in_thread(block);
    } else if (strcmp(how, "magazine") == 0) { /* after this many frees it is in a parked list */
        enum { COUNT = 6000 };
        static char *blocks[COUNT];
        for (int i = 0; i < COUNT; i++) blocks[i] = allocate(size);
        free(block);
        for (int i = 0; i < COUNT; i++) free(blocks[i]);
        free(opaque(block));
    } else if (strcmp(how, "purged") == 0) {
        free(block);
        malloc_trim(0);
        free(opaque(block));
    } else if (strcmp(how, "between") == 0) {
        free(block);
        free(other);
        free(opaque(block));
    } else {
        free(block);
        free(opaque(block));
    }
    return went_on();
}
