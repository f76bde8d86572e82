/* inside.h: scenarios that a library brings with it, on functions of its own inside. hakmem-order looks for `order_scenarios` in
 * the library, and runs them with --scenario NAME, or with `all`. They are compiled as the malloc is. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct order_scenario {
    const char *name, *hunts;
    void (*begin)(void); /* before the runs, by one thread: every run begins with what it leaves. NULL: nothing */
    void (*thread)(unsigned thread); /* two of them, or as --threads says */
    const char *(*law)(void); /* after a run, when all threads have ended: what is wrong; NULL: nothing. May be NULL */
};

/* The last one has no name. */
extern __attribute__((visibility("default"))) const struct order_scenario order_scenarios[];

/* Ends the run: it has failed. hakmem-order has it. */
void order_fail(const char *what);

#ifdef __cplusplus
}
#endif
