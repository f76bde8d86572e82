// With libc.h the one file of the suite that reads build macros. Everything else says `if constexpr (kDirect)`.
//
// HAKMEM_STRESS_DIRECT=1 (sanitizer and fuzz builds): the subject is libhakmem, linked in and called as hak_*.
// Otherwise the subject is whatever malloc the process has, called by its libc name.
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

// Blocks up to this size are judged whole (content.h). The fuzz targets, which run ten thousand sequences a second,
// judge less of large blocks.
#ifndef STRESS_CONTENT_FULL_LOG2
#define STRESS_CONTENT_FULL_LOG2 20
#endif

// 1 where an emulator runs the program (a cross build): what is resident is its translations, too.
#ifndef HAKMEM_STRESS_EMULATED
#define HAKMEM_STRESS_EMULATED 0
#endif

// What a handler of SIGSYS must know about the processor (fault_os.cc).
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

// On a function whose loops gain from wide vectors: it is built several times, and the loader picks, which
// glibc's does. Not under a sanitizer, which is not set up yet when the loader asks.
#if defined(__x86_64__) && defined(__GLIBC__) && !STRESS_SANITIZED
#define STRESS_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define STRESS_WIDE_VECTORS
#endif

// The processor's own counter: cycles or ticks of a constant rate, without a fence.
#if defined(__x86_64__)
#define STRESS_CYCLE_COUNT() __builtin_ia32_rdtsc()
#elif defined(__aarch64__)
// Of the assembler: each compiler has another builtin for it.
#define STRESS_CYCLE_COUNT()                                         \
    __extension__({                                                  \
        unsigned long long stress_ticks;                             \
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(stress_ticks)); \
        stress_ticks;                                                \
    })
#else
#error "hakmem-stress: no cycle counter is known for this processor; add one in build.h"
#endif

namespace stress {

inline constexpr bool kDirect = HAKMEM_STRESS_DIRECT != 0;

// A sanitizer brings its own malloc and shadow memory: preloading a subject cannot work,
// and resident memory says nothing about the subject.
inline constexpr bool kSanitized = STRESS_SANITIZED != 0;

inline constexpr bool kEmulated = HAKMEM_STRESS_EMULATED != 0;

} // namespace stress
