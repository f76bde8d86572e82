/* sparse_table.c: a table has an entry for each page of keys, but memory only for the pages in use, so nothing is at its
 * start. A name that is too long reaches the key behind it, and that key leads to a place in the table without memory.
 * The pointer to the table is right. */
// expect: library=release cause=overflow grade=found
#include "../program.h"

#include <sys/mman.h>

enum { BLOCKS = 64, SIZE = 96, ENTRIES = 512, PAGE_SHIFT = 12 };

static const uint64_t first_key = 1ull << 44;

struct item {
    uint64_t key;
    char rest[SIZE - 8];
};

static uint64_t *table;

PLAINLY static void table_make(void)
{
    uint64_t *shown =
        (uint64_t *)mmap(NULL, ENTRIES * sizeof *shown, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shown == MAP_FAILED) _exit(3);
    table = (uint64_t *)((uintptr_t)shown - (first_key >> PAGE_SHIFT) * sizeof *shown);
}

PLAINLY static struct item *item_make(uint64_t number)
{
    struct item *item = (struct item *)need(malloc(sizeof *item));
    item->key = first_key + (number << PAGE_SHIFT);
    return item;
}

PLAINLY static uint64_t *entry_of(const struct item *item)
{
    return &table[item->key >> PAGE_SHIFT];
}

PLAINLY static uint64_t sum_of(struct item *const *items, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += table[items[i]->key >> PAGE_SHIFT];
    return sum;
}

PLAINLY static void put_name(char *to, const char *text, size_t size_bytes)
{
    memcpy(to, text, size_bytes); /* guilty */
}

int main(void)
{
    static char text[SIZE + 8];
    struct item *items[BLOCKS];
    memset(text, 'm', sizeof text);
    table_make();
    for (uint64_t i = 0; i < BLOCKS; i++) items[i] = item_make(i);
    for (size_t i = 0; i < BLOCKS; i++) *entry_of(items[i]) = i;
    uint64_t before = sum_of(items, BLOCKS);
    for (size_t i = 1; i < BLOCKS; i++) {
        if ((char *)items[i] != (char *)items[i - 1] + SIZE) continue;
        /* That item is done, and its block now belongs to a name. */
        put_name((char *)items[i - 1], text, sizeof text);
        items[i - 1] = items[i];
        return sum_of(items, BLOCKS) == before ? 4 : 5;
    }
    return 3;
}
