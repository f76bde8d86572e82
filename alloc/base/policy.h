/* policy.h: the one reader of build macros. Everything else tests the enumerators below in plain
 * `if`, so that every build compiles every line; the compiler drops what a build does not have.
 *
 *   HAKMEM_DEBUG_VALIDATION   1 in the debug-validation build: failfast checks, sync points
 *   HAKMEM_STATIC             1 where the objects go into an executable, not a shared library
 *   HAKMEM_VERSION            "1.2.3", for crash records
 */
#pragma once

#ifndef HAKMEM_DEBUG_VALIDATION
#define HAKMEM_DEBUG_VALIDATION 0
#endif

#ifndef HAKMEM_STATIC
#define HAKMEM_STATIC 0
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

#define HAK_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define HAK_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define HAK_NOINLINE __attribute__((noinline))
#define HAK_COLD __attribute__((noinline, cold))
/* On declarations of data: reached directly, not through the table of what others may override. */
#define HAK_HIDDEN __attribute__((visibility("hidden")))
#define HAK_INLINE static inline __attribute__((always_inline))

/* Takes one from an unsigned counter, at most INT32_MAX; true when it was 0. One subtraction in memory and
 * a jump on its flags, if each compiler is asked in its own way. */
#if defined(__clang__)
#define HAK_COUNT_DOWN(counter) __builtin_sub_overflow(*(counter), 1u, (counter))
#else
#define HAK_COUNT_DOWN(counter) ((int)(*(counter) -= 1) < 0)
#endif

/* The thread cache is reached by one addition to the thread pointer: no call, no test. */
#define HAK_TLS _Thread_local __attribute__((tls_model("initial-exec")))

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
