/* registers.h: the general registers of a thread that a signal has stopped. Fit for a signal handler. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct os_register {
    const char *name;
    uint64_t value;
};

enum { OS_REGISTERS_MAX = 40, OS_REGISTER_PC = 0, OS_REGISTER_SP = 1, OS_REGISTER_FP = 2 };

/* Fills in all that the processor has, the program counter, the stack pointer and the frame pointer first, from a
 * signal handler's third argument. Returns how many. */
size_t os_registers(const void *signal_context, struct os_register registers[OS_REGISTERS_MAX]);

/* What a call that has just been made will return to, where the callee may not have a frame yet: on processors that
 * keep it in a register. 0 on those that push it on the stack. */
uint64_t os_link_register(const void *signal_context);

/* "x86_64", "aarch64". */
const char *os_architecture(void);
