/* A module for a namespace of its own (dlmopen): the C library that comes with it hands out thread-specific keys, and
 * does not know of those of the program's own C library. */
#include <pthread.h>
#include <stdlib.h>

enum { KEYS = 4 };

static pthread_key_t keys[KEYS];
static char values[KEYS];

__attribute__((visibility("default"))) const char *conform_keys_make(void);
__attribute__((visibility("default"))) const char *conform_keys_use(void);

static void nothing(void *value)
{
    (void)value;
}

const char *conform_keys_make(void)
{
    for (int i = 0; i < KEYS; i++)
        if (pthread_key_create(&keys[i], nothing) != 0) return "a C library of another namespace has no key";
    return NULL;
}

/* In a thread that has not used them. Leaves values, for the thread to end with. */
const char *conform_keys_use(void)
{
    void *block = malloc(1000);
    free(block);
    for (int i = 0; i < KEYS; i++)
        if (pthread_getspecific(keys[i]) != NULL)
            return "a key of another namespace has the value of one of the malloc's";
    for (int i = 0; i < KEYS; i++)
        if (pthread_setspecific(keys[i], &values[i]) != 0) return "a key of another namespace takes no value";
    for (int i = 0; i < KEYS; i++)
        if (pthread_getspecific(keys[i]) != &values[i]) return "a key of another namespace lost its value";
    return NULL;
}
