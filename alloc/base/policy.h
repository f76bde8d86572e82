/* policy.h: the only file that reads build macros. All other code tests the enumerators below in a plain `if`. So every
 * build compiles every line, and the compiler drops the lines that the build does not need.
 *
 *   HAKMEM_DEBUG_VALIDATION   1 in the debug-validation build: failfast checks, sync points
 *   HAKMEM_STATIC             1 where the objects go into an executable, not a shared library
 *   HAKMEM_FIBERS             1 where threads are coroutines of one kernel thread: the explorer, the fuzz targets
 *   HAKMEM_ORDERED            1 where hakmem-order runs what -fsanitize=thread compiled: nothing tells ThreadSanitizer of blocks
 *   HAKMEM_TLS_DYNAMIC        1 in libhakmem-dl.so, which dlopen can load when static thread-local memory is used up
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

#ifndef HAKMEM_ORDERED
#define HAKMEM_ORDERED 0
#endif

#ifndef HAKMEM_TLS_DYNAMIC
#define HAKMEM_TLS_DYNAMIC 0
#endif

#ifndef __cplusplus
enum { VALIDATE = HAKMEM_DEBUG_VALIDATION }; /* failfast checks and sync points */
#else
constexpr bool VALIDATE = HAKMEM_DEBUG_VALIDATION;
#endif

/* The sanitizer that the tree is built with. gcc defines a macro for it; clang answers __has_feature. */
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

/* Whether the allocator tells a sanitizer about blocks (os/sanitizer.h). It does not where threads are coroutines: the
 * explorer and the fuzz targets restore the heap's memory to an earlier state, and cannot restore the sanitizer's own
 * state with it. */
#if HAKMEM_FIBERS || HAKMEM_ORDERED
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
constexpr bool TSAN_BY_GCC = HAK_TELLS(HAK_SANITIZE_THREAD_BY_GCC); /* tests ask, since gcc's runtime can do less */
constexpr bool MSAN = HAK_TELLS(HAK_SANITIZE_MEMORY);
constexpr bool SANITIZED = ASAN || TSAN || MSAN;
#endif

/* Whether there is a heap profile. Where threads are coroutines too: at level 0 the checks let its blocks pass. */
enum { PROFILES = HAKMEM_FIBERS || !(VALIDATE || SANITIZED) };

/* Whether the page map's tables are mapped where they are needed only, at a place far from what the system maps by itself.
 * Not where a sanitizer, or the arena of coroutines, has that place. */
enum { SPARSE_MAP = !HAKMEM_FIBERS && !HAK_SANITIZE_ADDRESS && !HAK_SANITIZE_THREAD && !HAK_SANITIZE_MEMORY };

/* Whether the allocator enters the kernel by itself (os/call.h). A sanitizer, or the explorer, watches libc's functions. */
enum { OWN_CALLS = !HAKMEM_FIBERS && !HAK_SANITIZE_ADDRESS && !HAK_SANITIZE_THREAD && !HAK_SANITIZE_MEMORY };

/* For functions that read stack slots which the compiler wrote: MemorySanitizer counts those as not initialised. */
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
/* Not inlined, and its stack is aligned as functions outside of the library want it: code without a compiler may call malloc on
 * one that is aligned to 8 only. For what calls the program, libgcc, or functions of libc that keep vectors on the stack. */
#ifdef __x86_64__
#define HAK_ALIGNS_STACK __attribute__((noinline, force_align_arg_pointer))
#else
#define HAK_ALIGNS_STACK __attribute__((noinline))
#endif
/* For declarations of data: code reaches it directly, not through the global offset table, since nobody may override
 * it. */
#define HAK_HIDDEN __attribute__((visibility("hidden")))
#define HAK_INLINE static inline __attribute__((always_inline))

/* HAK_UNWATCHED marks a function that may read or write memory which is poisoned for the program. HAK_UNWATCHED_INLINE
 * does the same for a small one in a header: under AddressSanitizer it is not inlined, since code that is inlined is
 * checked as its caller is. */
#if HAK_TELLS(HAK_SANITIZE_ADDRESS)
#define HAK_UNWATCHED __attribute__((no_sanitize("address")))
#define HAK_UNWATCHED_INLINE static __attribute__((no_sanitize("address"), noinline, unused))
#else
#define HAK_UNWATCHED
#define HAK_UNWATCHED_INLINE HAK_INLINE
#endif

/* Subtracts one from an unsigned counter of at most INT32_MAX; true when it was 0. Written for each compiler in the way
 * that gives one subtraction in memory and a jump on its flags. */
#if defined(__clang__)
#define HAK_COUNT_DOWN(counter) __builtin_sub_overflow(*(counter), 1u, (counter))
#else
#define HAK_COUNT_DOWN(counter) ((int)(*(counter) -= 1) < 0)
#endif

/* HAK_TLS declares a thread-local variable; HAK_MINE(variable) is the calling thread's. The model initial-exec reaches
 * the thread cache by one addition to the thread pointer, without a call or a test. The loader must have room for such
 * variables in the memory that it sets aside for each thread at start. With local-dynamic each access asks the loader,
 * which makes room at a thread's first. Where threads are coroutines, all HAK_TLS variables lie in one section, and each
 * coroutine has a copy of the section hak_fiber_offset bytes away. */
#if HAKMEM_FIBERS
#include <stddef.h>
extern ptrdiff_t hak_fiber_offset;
#define HAK_TLS __attribute__((section("hak_fiber")))
#define HAK_MINE(variable) (*(__typeof__(variable) *)(void *)((char *)&(variable) + hak_fiber_offset))
#elif HAKMEM_TLS_DYNAMIC
#define HAK_TLS _Thread_local __attribute__((tls_model("local-dynamic")))
#define HAK_MINE(variable) (variable)
#else
#define HAK_TLS _Thread_local __attribute__((tls_model("initial-exec")))
#define HAK_MINE(variable) (variable)
#endif

/* A shared library must load into C programs too, so its references to the C++ runtime must be weak. In a static link
 * they must not be: a weak reference would leave the runtime's object out of the program. */
#if HAKMEM_STATIC
#define HAK_CXX_RUNTIME
#define HAK_CXX_RUNTIME_ASM(symbol) static_assert(true)
#else
#define HAK_CXX_RUNTIME __attribute__((weak))
#define HAK_CXX_RUNTIME_ASM(symbol) __asm__(".weak " symbol)
#endif

/* User addresses have this many bits. mmap gives none above it unless a hint asks for one. */
#if defined(__x86_64__)
#define HAK_ADDRESS_BITS 47
#elif defined(__aarch64__)
#define HAK_ADDRESS_BITS 48
#elif defined(__riscv) && __riscv_xlen == 64
#define HAK_ADDRESS_BITS 47
#else
#error "hakmem: unknown processor: say in policy.h how many bits a user address has"
#endif

/* Where the word lies that keeps the caller's frame pointer, in words from this function's. The return address follows it.
 * On riscv64 a function that calls none keeps no return address, unless something else needs its register. */
#if defined(__riscv)
#define HAK_FRAME_RECORD (-2)
#define HAK_KEEP_FRAME_RECORD() __asm__ volatile("" : : : "ra")
#else
#define HAK_FRAME_RECORD 0
#define HAK_KEEP_FRAME_RECORD() ((void)0)
#endif
