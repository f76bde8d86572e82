// Calls of the malloc under test, one inline function for each entry point.
//
// Every pointer is laundered through an empty asm: the declarations of libc carry attributes (malloc, alloc_align) from
// which a compiler may conclude that two blocks never alias, or that an alignment holds. The oracle is here to check
// exactly those claims.
#pragma once

#include <cstddef>

#include "engine/base/build.h"

namespace stress::subject {

template <typename T> inline T launder(T value)
{
    asm volatile("" : "+r"(value) : : "memory");
    return value;
}

inline void *call_malloc(std::size_t size_bytes)
{
    return launder(STRESS_SUBJECT(malloc)(launder(size_bytes)));
}

inline void *call_calloc(std::size_t count, std::size_t size_bytes)
{
    return launder(STRESS_SUBJECT(calloc)(launder(count), launder(size_bytes)));
}

inline void *call_realloc(void *start, std::size_t size_bytes)
{
    return launder(STRESS_SUBJECT(realloc)(launder(start), launder(size_bytes)));
}

inline void *call_aligned_alloc(std::size_t align_bytes, std::size_t size_bytes)
{
    return launder(STRESS_SUBJECT(aligned_alloc)(launder(align_bytes), launder(size_bytes)));
}

// Returns 0 or an errno value, like posix_memalign.
inline int call_posix_memalign(void **out, std::size_t align_bytes, std::size_t size_bytes)
{
    int error = STRESS_SUBJECT(posix_memalign)(out, launder(align_bytes), launder(size_bytes));
    *out = launder(*out);
    return error;
}

// memalign and reallocarray exist under their libc names, or as hak_*.
inline void *call_memalign(std::size_t align_bytes, std::size_t size_bytes)
{
    return launder(STRESS_SUBJECT(memalign)(launder(align_bytes), launder(size_bytes)));
}

inline void *call_reallocarray(void *start, std::size_t count, std::size_t size_bytes)
{
    return launder(STRESS_SUBJECT(reallocarray)(launder(start), launder(count), launder(size_bytes)));
}

inline std::size_t call_usable_size(void *start)
{
    return launder(STRESS_SUBJECT(malloc_usable_size)(launder(start)));
}

inline void call_free(void *start)
{
    STRESS_SUBJECT(free)(launder(start));
}

// Returns free memory to the system: malloc_trim, or hak_purge if hakmem is linked in.
inline void call_purge()
{
    STRESS_SUBJECT_PURGE();
}

} // namespace stress::subject
