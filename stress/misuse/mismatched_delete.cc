// mismatched_delete.cc: BY WITH: allocates with one family of calls and frees with another.
#include <new>

#include "misuse.h"

int main(int argc, char **argv)
{
    const char *by = argument(argc, argv, 1), *with = argument(argc, argv, 2);
    char *block;
    if (strcmp(by, "new") == 0) {
        block = opaque(::operator new(100));
    } else if (strcmp(by, "new[]") == 0) {
        block = opaque(::operator new[](100));
    } else {
        block = allocate(100);
    }
    char words[80];
    snprintf(words, sizeof words, "allocated by %s, and now %s", by, with);
    expect(block, words);
    if (strcmp(with, "delete") == 0) {
        ::operator delete(block);
    } else if (strcmp(with, "delete[]") == 0) {
        ::operator delete[](block);
    } else if (strcmp(with, "realloc") == 0) {
        block = opaque(realloc(block, 200));
    } else {
        free(block);
    }
    return went_on();
}
