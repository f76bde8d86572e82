/* copied_null.c: an order without a customer is copied into a batch, and the copy crashes. The function that copied it
 * did nothing wrong. */
// expect: library=both cause=null_stored grade=not_found
#include "../program.h"

struct order {
    uint64_t number;
    uint64_t *customer;
    uint64_t price;
};

struct batch {
    struct order orders[4];
};

PLAINLY static void set_customer(struct order *order, uint64_t *customer)
{
    order->customer = customer;
}

PLAINLY static void forget_customer(struct order *order)
{
    order->customer = NULL; /* guilty */
}

PLAINLY static void batch_put(struct batch *batch, size_t place, const struct order *order)
{
    batch->orders[place] = *order;
}

PLAINLY static uint64_t batch_sum(const struct batch *batch)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < 4; i++) sum += *batch->orders[i].customer;
    return sum;
}

int main(void)
{
    static uint64_t customer = 7;
    earlier_owners(sizeof(struct batch));
    struct order *order = (struct order *)need(calloc(1, sizeof *order));
    struct batch *batch = (struct batch *)need(malloc(sizeof *batch));
    set_customer(order, &customer);
    for (size_t i = 0; i < 4; i++) batch_put(batch, i, order);
    uint64_t before = batch_sum(batch);
    forget_customer(order);
    batch_put(batch, 2, order);
    set_customer(order, &customer);
    return batch_sum(batch) == before ? 4 : 5;
}
