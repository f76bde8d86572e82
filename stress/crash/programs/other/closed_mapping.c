/* closed_mapping.c: a dictionary is unmapped while a word of it is still in use. */
// expect: library=both cause=unmapped grade=found
#include <sys/mman.h>

#include "../program.h"

struct dictionary {
    char *words;
    size_t size_bytes;
};

PLAINLY static void dictionary_load(struct dictionary *dictionary)
{
    dictionary->size_bytes = 1 << 16;
    dictionary->words =
        (char *)mmap(NULL, dictionary->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (dictionary->words == MAP_FAILED) _exit(3);
    strcpy(dictionary->words, "aardvark");
}

PLAINLY static void dictionary_close(const struct dictionary *dictionary)
{
    munmap(dictionary->words, dictionary->size_bytes); /* guilty */
}

PLAINLY static char first_letter(const char *const *words)
{
    return words[0][0];
}

int main(void)
{
    earlier_owners(sizeof(struct dictionary));
    struct dictionary *first = (struct dictionary *)need(malloc(sizeof *first));
    struct dictionary *second = (struct dictionary *)need(malloc(sizeof *second));
    dictionary_load(first);
    dictionary_load(second);
    const char **words = (const char **)need(malloc(8 * sizeof *words));
    words[0] = second->words;
    char before = first_letter(words);
    dictionary_close(first);
    dictionary_close(second);
    return first_letter(words) == before ? 4 : 5;
}
