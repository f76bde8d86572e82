/* step.h: one step of a litmus test as C code that the compiler instruments (-fsanitize=thread). Values come and go in
 * registers, so the only accesses that the model sees are those of the test. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef unsigned __int128 litmus_value;

enum litmus_kind {
    LITMUS_LOAD,
    LITMUS_STORE,
    LITMUS_ADD,
    LITMUS_EXCHANGE,
    LITMUS_COMPARE,
    LITMUS_COMPARE_WEAK,
    LITMUS_FENCE
};
enum { LITMUS_PLAIN = 6 }; /* behind the six orders: an access that is not atomic */

/* Returns what a load or a read-modify-write read. order and failure: memory_order's numbers, or LITMUS_PLAIN for order. */
litmus_value litmus_step(enum litmus_kind kind, void *address, unsigned bytes, litmus_value value,
                         litmus_value expected, unsigned order, unsigned failure);

#ifdef __cplusplus
}
#endif
