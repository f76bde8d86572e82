// The suite's own memory (engine/base/mapped.h), taken from malloc, for targets that test its readers: lists must be
// cheap there, and AddressSanitizer must see a read past the end of one.
#include "engine/base/mapped.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace stress {

void *harness_place(std::size_t)
{
    return nullptr; // anywhere
}

void *harness_mmap(std::size_t size_bytes, int more_flags)
{
    return mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
}

void *harness_map(std::size_t size_bytes)
{
    void *start = std::calloc(1, size_bytes == 0 ? 1 : size_bytes);
    if (start != nullptr) return start;
    std::fprintf(stderr, "no memory for a list of %zu bytes\n", size_bytes);
    std::abort();
}

void harness_unmap(void *start, std::size_t)
{
    std::free(start);
}

std::size_t harness_resident_bytes()
{
    return 0;
}

void harness_count_resident(std::size_t) {}

}  // namespace stress
