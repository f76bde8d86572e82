/* remote_link.c: overwrites the link in a block that another thread has freed and its owner has not yet taken back.
 */
#include "misuse.h"

#include <malloc.h>
#include <pthread.h>

static void *free_it(void *block)
{
    void *volatile own = malloc(100);
    free(own); /* gives the thread a heap */
    free(block);
    return NULL;
}

int main(void)
{
    enum { SIZE = 20000, COUNT = 200 };
    char *block = allocate(SIZE);
    pthread_t thread;
    expect(block, "");
    if (pthread_create(&thread, NULL, free_it, block) != 0) give_up("pthread_create failed");
    pthread_join(thread, NULL); /* at its end the thread has posted the block */
    memset(opaque(block), 0x41, 8);
    for (int i = 0; i < COUNT; i++) allocate(SIZE);
    return went_on();
}
