/* stack_pointer.c: WHERE: frees a local variable: of main, of a thread, or one of main that a thread was lent. */
#include "misuse.h"

#include <pthread.h>

static void *misuse(void *lent)
{
    _Alignas(16) char local[64];
    char *variable = lent != NULL ? lent : local;
    expect(variable, "");
    free(opaque(variable));
    return NULL;
}

int main(int argc, char **argv)
{
    _Alignas(16) char local[64];
    pthread_t thread;
    allocate(10);
    if (strcmp(argument(argc, argv, 1), "main") == 0) {
        misuse(NULL);
    } else {
        char *lent = strcmp(argument(argc, argv, 1), "lent") == 0 ? local : NULL;
        if (pthread_create(&thread, NULL, misuse, lent) != 0) give_up("pthread_create failed");
        pthread_join(thread, NULL);
    }
    return went_on();
}
