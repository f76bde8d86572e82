/* sorted_pointer.c: one of a table's pointers is made from a number; then the table is sorted, which moves it. */
// expect: library=both cause=wild_read,wild_write,bad_value_stored grade=likely
#include "../program.h"

enum { ITEMS = 9 };

struct item {
    uint64_t weight;
    const uint64_t *price;
};

PLAINLY static void item_set(struct item *item, uint64_t weight, const uint64_t *price)
{
    item->weight = weight;
    item->price = price;
}

PLAINLY static void item_set_number(struct item *item, uint64_t number)
{
    item->price = (const uint64_t *)(uintptr_t)number; /* guilty */
}

PLAINLY static void items_sort(struct item *items)
{
    for (size_t i = 1; i < ITEMS; i++)
        for (size_t k = i; k > 0 && items[k].weight < items[k - 1].weight; k--) {
            struct item other = items[k];
            items[k] = items[k - 1];
            items[k - 1] = other;
        }
}

PLAINLY static uint64_t items_price(const struct item *items)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ITEMS; i++) sum += *items[i].price;
    return sum;
}

int main(void)
{
    static uint64_t price = 3;
    earlier_owners(ITEMS * sizeof(struct item));
    struct item *items = (struct item *)need(calloc(ITEMS, sizeof *items));
    for (uint64_t i = 0; i < ITEMS; i++) item_set(&items[i], (i * 5) % ITEMS, &price);
    uint64_t before = items_price(items);
    item_set_number(&items[7], 0x123456789000);
    items_sort(items);
    return items_price(items) == before ? 4 : 5;
}
