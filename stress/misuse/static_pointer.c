/* static_pointer.c: WHERE: frees a static variable, initialised or zero. */
#include "misuse.h"

static _Alignas(16) char data[64] = "data";
static _Alignas(16) char zero[1 << 20];

int main(int argc, char **argv)
{
    char *variable = strcmp(argument(argc, argv, 1), "data") == 0 ? data : zero + (1 << 19);
    allocate(10);
    expect(variable, "");
    free(opaque(variable));
    return went_on();
}
