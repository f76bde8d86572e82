/* policy.h: the one reader of build macros. Everything else tests the enumerators below in plain
 * `if`, so that every build compiles every line; the compiler drops what a build does not have.
 *
 *   HAKMEM_DEBUG_VALIDATION   1 in the debug-validation build: failfast checks, sync points
 *   HAKMEM_STATIC             1 where the objects go into an executable, not a shared library
 *   HAKMEM_FIBERS             1 where threads are coroutines of one kernel thread: the explorer, the fuzz targets
 *   HAKMEM_VERSION            "1.2.3", for crash records
 */
#pragma once

#ifndef HAKMEM_DEBUG_VALIDATION
#define HAKMEM_DEBUG_VALIDATION 0
#endif

#ifndef HAKMEM_STATIC
#define HAKMEM_STATIC 0
#endif

#ifndef HAKMEM_FIBERS
#define HAKMEM_FIBERS 0
#endif

#ifndef HAKMEM_VERSION
#define HAKMEM_VERSION "unknown"
#endif

#ifndef __cplusplus
enum { VALIDATE = HAKMEM_DEBUG_VALIDATION }; /* failfast checks at the four choke points */
#else
constexpr bool VALIDATE = HAKMEM_DEBUG_VALIDATION;
#endif

/* Which sanitizer the tree is built with: gcc defines a macro, clang answers a question. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define HAK_SANITIZE_ADDRESS 1
#else
#define HAK_SANITIZE_ADDRESS 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define HAK_SANITIZE_THREAD 1
#else
#define HAK_SANITIZE_THREAD 0
#endif
#if HAK_SANITIZE_THREAD && !defined(__clang__)
#define HAK_SANITIZE_THREAD_BY_GCC 1
#else
#define HAK_SANITIZE_THREAD_BY_GCC 0
#endif
#if __has_feature(memory_sanitizer)
#define HAK_SANITIZE_MEMORY 1
#else
#define HAK_SANITIZE_MEMORY 0
#endif

/* Whether a sanitizer is told of blocks: os/sanitizer.h. Not where threads are coroutines: the explorer and the fuzz
 * targets put the heap's memory back as it was, and cannot do so with what a sanitizer holds about it. */
#if HAKMEM_FIBERS
#define HAK_TELLS(sanitizer) 0
#else
#define HAK_TELLS(sanitizer) (sanitizer)
#endif
#ifndef __cplusplus
enum {
    ASAN = HAK_TELLS(HAK_SANITIZE_ADDRESS),
    TSAN = HAK_TELLS(HAK_SANITIZE_THREAD),
    MSAN = HAK_TELLS(HAK_SANITIZE_MEMORY),
    SANITIZED = ASAN || TSAN || MSAN,
};
#else
constexpr bool ASAN = HAK_TELLS(HAK_SANITIZE_ADDRESS);
constexpr bool TSAN = HAK_TELLS(HAK_SANITIZE_THREAD);
constexpr bool TSAN_BY_GCC = HAK_TELLS(HAK_SANITIZE_THREAD_BY_GCC); /* tests ask, since it has fewer abilities */
constexpr bool MSAN = HAK_TELLS(HAK_SANITIZE_MEMORY);
constexpr bool SANITIZED = ASAN || TSAN || MSAN;
#endif

/* A function that reads what the compiler keeps on stacks, of which MemorySanitizer does not know that it was written.
 */
#if __has_feature(memory_sanitizer)
#define HAK_READS_FRAMES __attribute__((no_sanitize("memory")))
#else
#define HAK_READS_FRAMES
#endif

#define HAK_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define HAK_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define HAK_NOINLINE __attribute__((noinline))
#define HAK_COLD __attribute__((noinline, cold))
#define HAK_NORETURN __attribute__((noreturn))
/* On declarations of data: reached directly, not through the table of what others may override. */
#define HAK_HIDDEN __attribute__((visibility("hidden")))
#define HAK_INLINE static inline __attribute__((always_inline))

/* A function that reads or writes what is poisoned for the program. And a small one in a header: a call of its own
 * where there is poison, since what is inlined is watched as the code around it is. */
#if HAK_TELLS(HAK_SANITIZE_ADDRESS)
#define HAK_UNWATCHED __attribute__((no_sanitize("address")))
#define HAK_UNWATCHED_INLINE static __attribute__((no_sanitize("address"), noinline, unused))
#else
#define HAK_UNWATCHED
#define HAK_UNWATCHED_INLINE HAK_INLINE
#endif

/* Takes one from an unsigned counter, at most INT32_MAX; true when it was 0. One subtraction in memory and
 * a jump on its flags, if each compiler is asked in its own way. */
#if defined(__clang__)
#define HAK_COUNT_DOWN(counter) __builtin_sub_overflow(*(counter), 1u, (counter))
#else
#define HAK_COUNT_DOWN(counter) ((int)(*(counter) -= 1) < 0)
#endif

/* A variable of each thread, and the calling thread's: the thread cache is reached by one addition to the thread
 * pointer: no call, no test. Where threads are coroutines, all that are HAK_TLS lie in one section, of which each
 * coroutine has a copy, hak_fiber_offset bytes away. */
#if HAKMEM_FIBERS
#include <stddef.h>
extern ptrdiff_t hak_fiber_offset;
#define HAK_TLS __attribute__((section("hak_fiber")))
#define HAK_MINE(variable) (*(__typeof__(variable) *)(void *)((char *)&(variable) + hak_fiber_offset))
#else
#define HAK_TLS _Thread_local __attribute__((tls_model("initial-exec")))
#define HAK_MINE(variable) (variable)
#endif

/* A shared library must load into C programs, so it may only refer to the C++ runtime weakly; in a
 * static link a weak reference would leave the runtime's object out of the program. */
#if HAKMEM_STATIC
#define HAK_CXX_RUNTIME
#define HAK_CXX_RUNTIME_ASM(symbol) static_assert(true)
#else
#define HAK_CXX_RUNTIME __attribute__((weak))
#define HAK_CXX_RUNTIME_ASM(symbol) __asm__(".weak " symbol)
#endif

/* User addresses have this many bits: what mmap gives without a hint above it. */
#if defined(__x86_64__)
#define HAK_ADDRESS_BITS 47
#elif defined(__aarch64__)
#define HAK_ADDRESS_BITS 48
#else
#error "hakmem: unknown processor: say in policy.h how many bits a user address has"
#endif
