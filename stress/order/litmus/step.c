#include "order/litmus/step.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* A switch over the order, since C wants it to be a constant. */
#define LITMUS_CASE(o, call) \
    case o: call(o); break;
#define LITMUS_ACQUIRING(call)              \
    LITMUS_CASE(memory_order_consume, call) \
    LITMUS_CASE(memory_order_acquire, call)
#define LITMUS_BOTH(call)                   \
    LITMUS_CASE(memory_order_relaxed, call) \
    LITMUS_CASE(memory_order_seq_cst, call)
#define LITMUS_SWITCH(cases)     \
    switch (order) {             \
        cases default : abort(); \
    }
#define LITMUS_EACH_ORDER(call)                                                                    \
    LITMUS_SWITCH(LITMUS_BOTH(call) LITMUS_ACQUIRING(call) LITMUS_CASE(memory_order_release, call) \
                      LITMUS_CASE(memory_order_acq_rel, call))

#define LITMUS_PAIR(how, success, otherwise) \
    case success * 8 + otherwise: how(at, &old, desired, success, otherwise); break;
#define LITMUS_PAIRS(how, success)                  \
    LITMUS_PAIR(how, success, memory_order_relaxed) \
    LITMUS_PAIR(how, success, memory_order_acquire) \
    LITMUS_PAIR(how, success, memory_order_seq_cst)
#define LITMUS_COMPARES(how)                    \
    switch (order * 8 + failure) {              \
        LITMUS_PAIRS(how, memory_order_relaxed) \
        LITMUS_PAIRS(how, memory_order_acquire) \
        LITMUS_PAIRS(how, memory_order_release) \
        LITMUS_PAIRS(how, memory_order_acq_rel) \
        LITMUS_PAIRS(how, memory_order_seq_cst) \
    default: abort();                           \
    }

#define LITMUS_LOADS(o) old = atomic_load_explicit(at, o)
#define LITMUS_STORES(o) atomic_store_explicit(at, desired, o)
#define LITMUS_ADDS(o) old = atomic_fetch_add_explicit(at, desired, o)
#define LITMUS_EXCHANGES(o) old = atomic_exchange_explicit(at, desired, o)
#define LITMUS_FENCES(o) atomic_thread_fence(o)

/* One function for each size. */
#define LITMUS_STEP_OF(T)                                                                                            \
    static T step_##T(enum litmus_kind kind, void *address, T desired, T expected, unsigned order, unsigned failure) \
    {                                                                                                                \
        _Atomic(T) *at = address;                                                                                    \
        T old = expected;                                                                                            \
        switch (kind) {                                                                                              \
        case LITMUS_LOAD:                                                                                            \
            if (order == LITMUS_PLAIN) return *(volatile T *)address;                                                \
            LITMUS_SWITCH(LITMUS_BOTH(LITMUS_LOADS) LITMUS_ACQUIRING(LITMUS_LOADS))                                  \
            break;                                                                                                   \
        case LITMUS_STORE:                                                                                           \
            if (order == LITMUS_PLAIN) *(volatile T *)address = desired;                                             \
            else LITMUS_SWITCH(LITMUS_BOTH(LITMUS_STORES) LITMUS_CASE(memory_order_release, LITMUS_STORES))          \
            break;                                                                                                   \
        case LITMUS_ADD: LITMUS_EACH_ORDER(LITMUS_ADDS) break;                                                       \
        case LITMUS_EXCHANGE: LITMUS_EACH_ORDER(LITMUS_EXCHANGES) break;                                             \
        case LITMUS_COMPARE: LITMUS_COMPARES(atomic_compare_exchange_strong_explicit) break;                         \
        case LITMUS_COMPARE_WEAK: LITMUS_COMPARES(atomic_compare_exchange_weak_explicit) break;                      \
        case LITMUS_FENCE: abort();                                                                                  \
        }                                                                                                            \
        return old;                                                                                                  \
    }

typedef unsigned __int128 uint128;
LITMUS_STEP_OF(uint8_t)
LITMUS_STEP_OF(uint16_t)
LITMUS_STEP_OF(uint32_t)
LITMUS_STEP_OF(uint64_t)
LITMUS_STEP_OF(uint128)

litmus_value litmus_step(enum litmus_kind kind, void *address, unsigned bytes, litmus_value value,
                         litmus_value expected, unsigned order, unsigned failure)
{
    if (kind == LITMUS_FENCE) {
        LITMUS_EACH_ORDER(LITMUS_FENCES)
        return 0;
    }
    switch (bytes) {
    case 1: return step_uint8_t(kind, address, (uint8_t)value, (uint8_t)expected, order, failure);
    case 2: return step_uint16_t(kind, address, (uint16_t)value, (uint16_t)expected, order, failure);
    case 4: return step_uint32_t(kind, address, (uint32_t)value, (uint32_t)expected, order, failure);
    case 8: return step_uint64_t(kind, address, (uint64_t)value, (uint64_t)expected, order, failure);
    case 16: return step_uint128(kind, address, value, expected, order, failure);
    default: abort();
    }
}
