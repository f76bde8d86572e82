/* registers.h: the general registers of a thread that a signal has stopped. Async-signal-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct os_register {
    const char *name;
    uint64_t value;
};

enum { OS_REGISTERS_MAX = 40, OS_REGISTER_PC = 0, OS_REGISTER_SP = 1, OS_REGISTER_FP = 2 };

/* Fills in all general registers from a signal handler's third argument; the program counter, the stack pointer and the
 * frame pointer come first. Returns how many. */
size_t os_registers(const void *signal_context, struct os_register registers[OS_REGISTERS_MAX]);

/* The return address in the link register, for a callee that has no frame yet. 0 on processors that push the return
 * address on the stack. */
uint64_t os_link_register(const void *signal_context);

/* "x86_64", "aarch64", "riscv64". */
const char *os_architecture(void);
