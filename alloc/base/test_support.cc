// test_support.cc: loops over all bytes of a block. They have a file of their own, since it is optimised even where the
// tests are not.
#include "base/test_support.h"

namespace test {

void pattern_fill(void *block, size_t size_bytes, uint64_t stamp, size_t step)
{
    auto *bytes = static_cast<volatile unsigned char *>(block);
    for (size_t i = 0; i < size_bytes; i += step) bytes[i] = pattern_byte(stamp, i);
    if (size_bytes > 0) bytes[size_bytes - 1] = pattern_byte(stamp, size_bytes - 1);
}

bool pattern_holds(const void *block, size_t size_bytes, uint64_t stamp, size_t step)
{
    auto *bytes = static_cast<const volatile unsigned char *>(block);
    for (size_t i = 0; i < size_bytes; i += step)
        if (bytes[i] != pattern_byte(stamp, i)) return false;
    return true;
}

bool is_zero(const void *block, size_t size_bytes, size_t step)
{
    auto *bytes = static_cast<const volatile unsigned char *>(block);
    for (size_t i = 0; i < size_bytes; i += step)
        if (bytes[i] != 0) return false;
    return size_bytes == 0 || bytes[size_bytes - 1] == 0;
}

} // namespace test
