// The malloc under test: each of its entry points, found by name and proved to be its own.
//
// An entry that the library does not define would reach libc's malloc, which must not get the library's blocks; so it
// is null here. The calls go through pointers, because libc's declarations (malloc, alloc_align, nonnull) let a
// compiler assume the very things that are under test.
#pragma once

#include <cstddef>
#include <cstdio>

namespace stress::conform {

// Member, symbol, result, parameters. Every malloc has the first four.
#define STRESS_CONFORM_ENTRIES(X)                                                                         \
    X(malloc, "malloc", void *, (std::size_t size))                                                       \
    X(free, "free", void, (void *block))                                                                  \
    X(calloc, "calloc", void *, (std::size_t count, std::size_t size))                                    \
    X(realloc, "realloc", void *, (void *block, std::size_t size))                                        \
    X(aligned_alloc, "aligned_alloc", void *, (std::size_t align, std::size_t size))                      \
    X(posix_memalign, "posix_memalign", int, (void **out, std::size_t align, std::size_t size))           \
    X(memalign, "memalign", void *, (std::size_t align, std::size_t size))                                \
    X(valloc, "valloc", void *, (std::size_t size))                                                       \
    X(pvalloc, "pvalloc", void *, (std::size_t size))                                                     \
    X(usable_size, "malloc_usable_size", std::size_t, (void *block))                                      \
    X(reallocarray, "reallocarray", void *, (void *block, std::size_t count, std::size_t size))           \
    X(reallocarr, "reallocarr", int, (void *block_pointer, std::size_t count, std::size_t size))          \
    X(free_sized, "free_sized", void, (void *block, std::size_t size))                                    \
    X(free_aligned_sized, "free_aligned_sized", void, (void *block, std::size_t align, std::size_t size)) \
    X(sdallocx, "sdallocx", void, (void *block, std::size_t size, int flags))                             \
    X(nallocx, "nallocx", std::size_t, (std::size_t size, int flags))                                     \
    X(good_size, "malloc_good_size", std::size_t, (std::size_t size))                                     \
    X(trim, "malloc_trim", int, (std::size_t pad))                                                        \
    X(mallopt, "mallopt", int, (int parameter, int value))                                                \
    X(stats, "malloc_stats", void, ())                                                                    \
    X(info, "malloc_info", int, (int options, std::FILE *stream))

// The C++ operators. The program has its own, which come first, so the lookup starts after the program. Those of the
// C++ library are left out: they call one another by name, so half of the calls would reach the program's own.
#define STRESS_CONFORM_OPERATORS(X)                                                              \
    X(new_, "_Znwm", void *, (std::size_t size))                                                 \
    X(new_array, "_Znam", void *, (std::size_t size))                                            \
    X(new_nothrow, "_ZnwmRKSt9nothrow_t", void *, (std::size_t size, const void *nothrow))       \
    X(new_array_nothrow, "_ZnamRKSt9nothrow_t", void *, (std::size_t size, const void *nothrow)) \
    X(new_aligned, "_ZnwmSt11align_val_t", void *, (std::size_t size, std::size_t align))        \
    X(new_array_aligned, "_ZnamSt11align_val_t", void *, (std::size_t size, std::size_t align))  \
    X(new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", void *,                         \
      (std::size_t size, std::size_t align, const void *nothrow))                                \
    X(delete_, "_ZdlPv", void, (void *block))                                                    \
    X(delete_array, "_ZdaPv", void, (void *block))                                               \
    X(delete_sized, "_ZdlPvm", void, (void *block, std::size_t size))                            \
    X(delete_array_sized, "_ZdaPvm", void, (void *block, std::size_t size))                      \
    X(delete_aligned, "_ZdlPvSt11align_val_t", void, (void *block, std::size_t align))           \
    X(delete_array_aligned, "_ZdaPvSt11align_val_t", void, (void *block, std::size_t align))     \
    X(delete_sized_aligned, "_ZdlPvmSt11align_val_t", void, (void *block, std::size_t size, std::size_t align))

struct Subject {
#define STRESS_CONFORM_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
    STRESS_CONFORM_ENTRIES(STRESS_CONFORM_MEMBER)
    STRESS_CONFORM_OPERATORS(STRESS_CONFORM_MEMBER)
#undef STRESS_CONFORM_MEMBER
    char library[4096] = "";  // the file that malloc comes from
    const void *base = nullptr;  // where that file is loaded
    bool is_libc = false;     // that file is libc itself
};

// The subject is whatever provides malloc in this process. Its entries record each call (calls.h).
Subject subject_find();

// Whether the symbol that a program would call comes from the subject.
bool subject_provides(const Subject &subject, const char *symbol);

}  // namespace stress::conform
