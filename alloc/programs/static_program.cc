// static_program.cc: a C++ program linked with hakmem-override.o and libhakmem.a: malloc and operator
// new are hakmem's, exceptions and the new_handler work.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <new>
#include <string>
#include <thread>

#include "hakmem/hakmem.h"

static int handler_calls;

static int check()
{
    std::map<std::string, std::string> map;
    for (int i = 0; i < 10000; i++) map[std::to_string(i)] = std::string((size_t)i % 300, 'x');
    std::thread([&map] { map.clear(); }).join();

    // volatile: a compiler may drop a pair of new and delete.
    char *volatile huge = new char[10u << 20];
    hak_stats stats;
    hak_stats_get(&stats);
    if (stats.huge_bytes < 10u << 20) return 2; // operator new is not hakmem's
    void *volatile block = malloc(20u << 20);
    hak_stats_get(&stats);
    if (block == nullptr || stats.huge_bytes < 30u << 20) return 3; // malloc is not hakmem's
    free(block);
    delete[] huge;

    volatile size_t too_large = (size_t)PTRDIFF_MAX - 4096;
    try {
        block = ::operator new(too_large);
        return 4;
    } catch (const std::bad_alloc &) {}
    std::set_new_handler([] {
        handler_calls++;
        std::set_new_handler(nullptr);
    });
    try {
        block = ::operator new(too_large);
        return 5;
    } catch (const std::bad_alloc &) {}
    if (handler_calls != 1) return 6;
    std::set_new_handler([] { throw 1; });
    block = ::operator new(too_large, std::nothrow);
    return block == nullptr ? 0 : 7;
}

int main()
{
    int status = check();
    if (status != 0) fprintf(stderr, "static_program: step %d failed\n", status);
    return status;
}
