/* uncaught.cc: an index is beyond the end of a vector, and nobody catches what at() throws. */
// expect: library=both cause=uncaught_exception grade=found
#include <stdexcept>
#include <vector>

#include "../program.h"

PLAINLY static int price_of(const std::vector<int> &prices, size_t number)
{
    return prices.at(number); /* guilty */
}

PLAINLY static int sum_of(const std::vector<int> &prices, size_t count)
{
    int sum = 0;
    for (size_t i = 0; i < count; i++) sum += price_of(prices, i);
    return sum;
}

int main()
{
    earlier_owners(64);
    std::vector<int> prices;
    for (int i = 0; i < 12; i++) prices.push_back(i);
    try {
        price_of(prices, 100);
    } catch (const std::out_of_range &) {
        earlier_owners(64); /* this one is caught */
    }
    return sum_of(prices, 13) == 0 ? 4 : 5;
}
