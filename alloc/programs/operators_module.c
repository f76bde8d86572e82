/* operators_module.c: a module with one C++ operator of its own, OPERATOR, that calls malloc or free. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *OPERATOR(void *argument);

void *OPERATOR(void *argument)
{
    void *block = TAKES_SIZE ? malloc((size_t)argument) : NULL;
    if (!TAKES_SIZE) free(argument);
    return block;
}
