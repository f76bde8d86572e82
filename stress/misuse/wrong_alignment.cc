// wrong_alignment.cc: HOW SAID: frees a block aligned to 64 with an aligned free that names another alignment. HOW:
// free_aligned_sized, delete, malloc (a block without an alignment).
#include <new>

#include "misuse.h"

extern "C" {
[[gnu::weak]] void free_aligned_sized(void *block, size_t align, size_t size);
}

int main(int argc, char **argv)
{
    const char *how = argument(argc, argv, 1);
    size_t said = size_argument(argc, argv, 2);
    if (free_aligned_sized == nullptr) give_up("this malloc has no sized free");
    const bool by_new = strcmp(how, "delete") == 0, by_malloc = strcmp(how, "malloc") == 0;
    char *block = by_malloc ? allocate(100)
                  : by_new  ? opaque(::operator new(100, std::align_val_t{64}))
                            : opaque(aligned_alloc(64, 100));
    char words[80];
    if (said == 0) snprintf(words, sizeof words, "allocated with 64, freed with none");
    else snprintf(words, sizeof words, "allocated with %s, freed with %zu", by_malloc ? "none" : "64", said);
    expect(block, words);
    if (said == 0) {
        ::operator delete(block);
    } else if (by_new) {
        ::operator delete(block, std::align_val_t{said});
    } else {
        free_aligned_sized(block, said, 100);
    }
    return went_on();
}
