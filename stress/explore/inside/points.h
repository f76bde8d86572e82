/* points.h: makes each atomic access of the allocator a place where its thread, a coroutine, may stop. The allocator's
 * sources that are built for the explorer and the fuzz targets include it first of all (-include). The code itself is
 * the real code, unchanged.
 *
 * The compiler's builtin makes the access, in one step, right after the point. The stored value is computed before the
 * point, so a value that was loaded for it may be out of date. A weak compare-and-swap never fails spuriously here.
 * Code that calls the builtins itself has no points. */
#pragma once

#include <stdatomic.h>

#include "explore/inside/site.h"

/* Casts to a pointer to the type without _Atomic, which the builtins of some compilers need. */
#define STRESS_PLAIN(object) ((__typeof__((void)0, *(object)) *)(object))

/* Passes a point of this place in the sources, then makes the access. */
#define STRESS_POINT(what, object, access)                                                                 \
    __extension__({                                                                                        \
        static STRESS_SITE struct stress_site stress_site = {what, __FILE__, __func__, __LINE__, 0, 0, 0}; \
        stress_fiber_point(&stress_site, object);                                                          \
        access;                                                                                            \
    })
/* Evaluates the operand first. */
#define STRESS_WITH(what, object, operand, access)                    \
    __extension__({                                                   \
        __typeof__(*STRESS_PLAIN(object)) stress_operand = (operand); \
        STRESS_POINT(what, object, access);                           \
    })

#undef atomic_load_explicit
#define atomic_load_explicit(object, order) STRESS_POINT("load", object, __atomic_load_n(STRESS_PLAIN(object), order))

#undef atomic_store_explicit
#define atomic_store_explicit(object, desired, order) \
    STRESS_WITH("store", object, desired, __atomic_store_n(STRESS_PLAIN(object), stress_operand, order))

#undef atomic_exchange_explicit
#define atomic_exchange_explicit(object, desired, order) \
    STRESS_WITH("exchange", object, desired, __atomic_exchange_n(STRESS_PLAIN(object), stress_operand, order))

#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, expected, desired, order, order_failed) \
    STRESS_WITH("compare-and-swap", object, desired,                                            \
                __atomic_compare_exchange_n(STRESS_PLAIN(object), expected, stress_operand, 0, order, order_failed))

#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit

#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, operand, order) \
    STRESS_WITH("fetch-add", object, operand, __atomic_fetch_add(STRESS_PLAIN(object), stress_operand, order))

#undef atomic_fetch_sub_explicit
#define atomic_fetch_sub_explicit(object, operand, order) \
    STRESS_WITH("fetch-sub", object, operand, __atomic_fetch_sub(STRESS_PLAIN(object), stress_operand, order))

#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(object, operand, order) \
    STRESS_WITH("fetch-or", object, operand, __atomic_fetch_or(STRESS_PLAIN(object), stress_operand, order))

#undef atomic_fetch_and_explicit
#define atomic_fetch_and_explicit(object, operand, order) \
    STRESS_WITH("fetch-and", object, operand, __atomic_fetch_and(STRESS_PLAIN(object), stress_operand, order))
