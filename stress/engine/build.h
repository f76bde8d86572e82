// The one file of the suite that reads build macros. Everything else says `if constexpr (kDirect)`.
//
// HAKMEM_STRESS_DIRECT=1 (sanitizer and fuzz builds): the subject is libhakmem, linked in and called as hak_*.
// Otherwise the subject is whatever malloc the process has, called by its libc name.
#pragma once

#ifndef HAKMEM_STRESS_DIRECT
#define HAKMEM_STRESS_DIRECT 0
#endif

#if HAKMEM_STRESS_DIRECT
#include <hakmem/hakmem.h>
#define STRESS_SUBJECT(name) ::hak_##name
#else
#include <malloc.h>
#include <stdlib.h>
#define STRESS_SUBJECT(name) ::name
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

namespace stress {

inline constexpr bool kDirect = HAKMEM_STRESS_DIRECT != 0;

// A sanitizer brings its own malloc and shadow memory: preloading a subject cannot work,
// and resident memory says nothing about the subject.
inline constexpr bool kSanitized = STRESS_SANITIZED != 0;

}  // namespace stress
