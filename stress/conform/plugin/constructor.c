/* A module whose constructor allocates and whose destructor frees, including a block that the program resized in
 * between. */
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) void *conform_constructor_block;

__attribute__((constructor)) static void start(void)
{
    void *blocks[50];
    for (int i = 0; i < 50; i++) blocks[i] = calloc((size_t)i + 1, 700);
    for (int i = 0; i < 50; i++) free(blocks[i]);
    conform_constructor_block = malloc(5000);
    if (conform_constructor_block != NULL) memset(conform_constructor_block, 1, 5000);
}

__attribute__((destructor)) static void end(void)
{
    free(conform_constructor_block);
    free(malloc(100));
}
