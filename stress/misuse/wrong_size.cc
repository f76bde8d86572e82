// wrong_size.cc: HOW SAID: frees 100 bytes with a sized free that names another size. HOW: free_sized, delete,
// delete[], free_aligned_sized, delete-aligned.
#include <new>

#include "misuse.h"

extern "C" {
[[gnu::weak]] void free_sized(void *block, size_t size);
[[gnu::weak]] void free_aligned_sized(void *block, size_t align, size_t size);
}

int main(int argc, char **argv)
{
    const char *how = argument(argc, argv, 1);
    size_t said = size_argument(argc, argv, 2);
    if (free_sized == nullptr || free_aligned_sized == nullptr) give_up("this malloc has no sized free");
    const std::align_val_t align{64};
    char *block;
    if (strcmp(how, "delete") == 0) {
        block = opaque(::operator new(100));
    } else if (strcmp(how, "delete[]") == 0) {
        block = opaque(::operator new[](100));
    } else if (strcmp(how, "delete-aligned") == 0) {
        block = opaque(::operator new(100, align));
    } else {
        block = strcmp(how, "free_sized") == 0 ? allocate(100) : opaque(aligned_alloc(64, 100));
    }
    char words[80];
    snprintf(words, sizeof words, "allocated with 100, freed with %zu", said);
    expect(block, words);
    if (strcmp(how, "delete") == 0) {
        ::operator delete(block, said);
    } else if (strcmp(how, "delete[]") == 0) {
        ::operator delete[](block, said);
    } else if (strcmp(how, "delete-aligned") == 0) {
        ::operator delete(block, said, align);
    } else if (strcmp(how, "free_sized") == 0) {
        free_sized(block, said);
    } else {
        free_aligned_sized(block, 64, said);
    }
    return went_on();
}
