/* operators_module.c: a module with one C++ operator of its own, OPERATOR, that calls malloc or free. Another one, USED, it
 * only refers to. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *OPERATOR(void *argument);
void *USED(void *argument);
__attribute__((used)) static void *(*const used)(void *) = USED;

void *OPERATOR(void *argument)
{
    void *block = TAKES_SIZE ? malloc((size_t)argument) : NULL;
    if (!TAKES_SIZE) free(argument);
    return block;
}
