/* loading_module.c: a module for loading_program. LOADING_DATA says whether its data is thread-local; its constructor
 * allocates. */
#include "programs/loading_module.h"

#include <stdlib.h>
#include <string.h>

LOADING_DATA char module_data[64];
static void *kept;

__attribute__((constructor)) static void begin(void)
{
    kept = malloc(100);
}

__attribute__((destructor)) static void end(void)
{
    free(kept);
}

bool module_pairs_match(void)
{
    module_data[0]++;
    for (size_t size = 16; size < 4u << 20; size = size * 3 + 1) {
        char *block = malloc(size);
        if (block == NULL) return false;
        block[size - 1] = 1;
        block = realloc(block, size * 2);
        if (block == NULL || block[size - 1] != 1) return false;
        free(block);
    }
    return kept != NULL;
}

char *module_text_make(const char *text)
{
    return strdup(text);
}

void module_text_drop(char *text)
{
    free(text);
}
