// override_test_support.h: what the tests of the overridden names share.
#pragma once

#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <gtest/gtest.h>

// What is preloaded, by its file's name; NULL if this run is on libc's own malloc.
inline const char *expected_library()
{
    return getenv("HAKMEM_TEST_LIBRARY");
}

inline void *symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

// Hides from the compiler where a pointer came from, and that it is not used.
template <class T> inline T *opaque(T *pointer)
{
    asm volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}
inline size_t opaque(size_t value)
{
    asm volatile("" : "+r"(value));
    return value;
}

inline bool is_aligned(void *block, size_t align)
{
    return (uintptr_t)block % align == 0;
}

inline void expect_block(void *block, size_t size, size_t align = 16)
{
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(is_aligned(block, align));
    EXPECT_GE(malloc_usable_size(block), size);
    memset(block, 0x5a, size);
}
