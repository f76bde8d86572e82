/* A program that needs no malloc of its own, so that a linker with --as-needed has no reason to keep libhakmem.so. Valid C++
 * too. */
#include <unistd.h>

#ifdef __cplusplus
extern "C"
#endif
    const char *
    quiet_whose(void);

int main(void)
{
    return write(1, quiet_whose(), 4) != 4;
}
