/* stack_pointer.c: WHERE: frees a local variable, of main or of a thread. */
#include "misuse.h"

#include <pthread.h>

static void *misuse(void *unused)
{
    _Alignas(16) char local[64];
    (void)unused;
    expect(local, "");
    free(opaque(local));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    allocate(10);
    if (strcmp(argument(argc, argv, 1), "main") == 0) {
        misuse(NULL);
    } else {
        if (pthread_create(&thread, NULL, misuse, NULL) != 0) give_up("pthread_create failed");
        pthread_join(thread, NULL);
    }
    return went_on();
}
