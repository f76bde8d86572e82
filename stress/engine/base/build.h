// Only this file and libc.h read build macros. All other files of the suite say `if constexpr (kDirect)`.
//
// HAKMEM_STRESS_DIRECT=1 (sanitizer and fuzz builds): the subject is libhakmem, linked in and called as hak_*.
// Otherwise the subject is the malloc of the process, called by its libc names.
#pragma once

#include <stdlib.h>  // says which libc it is

#ifndef HAKMEM_STRESS_DIRECT
#define HAKMEM_STRESS_DIRECT 0
#endif

#if HAKMEM_STRESS_DIRECT
#include <hakmem/hakmem.h>
#define STRESS_SUBJECT(name) ::hak_##name
#define STRESS_SUBJECT_PURGE() static_cast<void>(::hak_purge())
#else
#include <malloc.h>
#define STRESS_SUBJECT(name) ::name
#define STRESS_SUBJECT_PURGE() static_cast<void>(::malloc_trim(0))
#endif

// Blocks up to this size are checked in full (content.h). The fuzz targets run ten thousand sequences a second and
// check less of large blocks.
#ifndef STRESS_CONTENT_FULL_LOG2
#define STRESS_CONTENT_FULL_LOG2 20
#endif

// 1 if an emulator runs the program (a cross build). Resident memory then includes the emulator's translated code.
#ifndef HAKMEM_STRESS_EMULATED
#define HAKMEM_STRESS_EMULATED 0
#endif

// What a SIGSYS handler must know about the processor (fault_os.cc).
#if defined(__x86_64__)
#define STRESS_X86_64 1
#else
#define STRESS_X86_64 0
#endif

// gcc defines __SANITIZE_*, clang answers __has_feature.
#ifdef __has_feature
#define STRESS_HAS_FEATURE(x) __has_feature(x)
#else
#define STRESS_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || STRESS_HAS_FEATURE(address_sanitizer) || \
    STRESS_HAS_FEATURE(thread_sanitizer) || STRESS_HAS_FEATURE(memory_sanitizer)
#define STRESS_SANITIZED 1
#else
#define STRESS_SANITIZED 0
#endif

// For functions whose loops gain from wide vectors. The compiler builds them several times and the loader picks one,
// which glibc's loader supports. Not under a sanitizer, which is not set up yet when the loader picks.
#if defined(__x86_64__) && defined(__GLIBC__) && !STRESS_SANITIZED
#define STRESS_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define STRESS_WIDE_VECTORS
#endif

// The processor's counter, in cycles or in ticks of a constant rate. Read without a fence.
#if defined(__x86_64__)
#define STRESS_CYCLE_COUNT() __builtin_ia32_rdtsc()
#elif defined(__aarch64__)
// In assembly, because each compiler has another builtin for it.
#define STRESS_CYCLE_COUNT()                                         \
    __extension__({                                                  \
        unsigned long long stress_ticks;                             \
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(stress_ticks)); \
        stress_ticks;                                                \
    })
#elif defined(__riscv) && __riscv_xlen == 64
#define STRESS_CYCLE_COUNT()                                \
    __extension__({                                         \
        unsigned long long stress_ticks;                    \
        __asm__ volatile("rdtime %0" : "=r"(stress_ticks)); \
        stress_ticks;                                       \
    })
#else
#error "hakmem-stress: no cycle counter is known for this processor; add one in build.h"
#endif

// Whether an index past the end ends the process, in Mapped as in the containers of the standard library.
#ifdef _GLIBCXX_ASSERTIONS
#define STRESS_INDEXES_CHECKED 1
#else
#define STRESS_INDEXES_CHECKED 0
#endif

namespace stress {

inline constexpr bool kIndexesChecked = STRESS_INDEXES_CHECKED != 0;

inline constexpr bool kDirect = HAKMEM_STRESS_DIRECT != 0;

// A sanitizer brings its own malloc and shadow memory: preloading a subject cannot work,
// and resident memory says nothing about the subject.
inline constexpr bool kSanitized = STRESS_SANITIZED != 0;

inline constexpr bool kEmulated = HAKMEM_STRESS_EMULATED != 0;

} // namespace stress
