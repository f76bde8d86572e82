/* divide.c: computes the mean of a list that a filter has emptied. */
// expect: library=both cause=division_by_zero grade=found
#include "../program.h"

struct list {
    int count;
    int values[15];
};

PLAINLY static void keep_above(struct list *list, int limit)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (list->values[i] > limit) list->values[kept++] = list->values[i];
    list->count = kept; /* also guilty */
}

PLAINLY static int mean(const struct list *list)
{
    int sum = 0;
    for (int i = 0; i < list->count; i++) sum += list->values[i];
    return sum / list->count; /* guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct list));
    struct list *list = (struct list *)need(calloc(1, sizeof *list));
    list->count = 10;
    for (int i = 0; i < 10; i++) list->values[i] = i;
    keep_above(list, 3);
    int before = mean(list);
    keep_above(list, 30);
    return mean(list) == before ? 4 : 5;
}
