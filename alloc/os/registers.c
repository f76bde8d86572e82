/* registers.c: see registers.h. */
#include "os/registers.h"

#include <ucontext.h>

#if defined(__x86_64__)

// clang-format off
#define REGISTERS(X)                                                                                              \
    X(rip, RIP) X(rsp, RSP) X(rbp, RBP) X(rax, RAX) X(rbx, RBX) X(rcx, RCX) X(rdx, RDX) X(rsi, RSI) X(rdi, RDI)   \
    X(r8, R8) X(r9, R9) X(r10, R10) X(r11, R11) X(r12, R12) X(r13, R13) X(r14, R14) X(r15, R15) X(eflags, EFL)
// clang-format on

size_t os_registers(const void *signal_context, struct os_register registers[OS_REGISTERS_MAX])
{
    const ucontext_t *context = signal_context;
    size_t count = 0;
#define X(text, index) \
    registers[count++] = (struct os_register){#text, (uint64_t)context->uc_mcontext.gregs[REG_##index]};
    REGISTERS(X)
#undef X
    return count;
}

uint64_t os_link_register(const void *signal_context)
{
    (void)signal_context;
    return 0;
}

const char *os_architecture(void)
{
    return "x86_64";
}

#elif defined(__aarch64__)

size_t os_registers(const void *signal_context, struct os_register registers[OS_REGISTERS_MAX])
{
    static const char *const names[31] = {"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10",
                                          "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
                                          "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30"};
    const ucontext_t *context = signal_context;
    size_t count = 0;
    registers[count++] = (struct os_register){"pc", context->uc_mcontext.pc};
    registers[count++] = (struct os_register){"sp", context->uc_mcontext.sp};
    registers[count++] = (struct os_register){"x29", context->uc_mcontext.regs[29]};
    for (int i = 0; i < 31; i++)
        if (i != 29) registers[count++] = (struct os_register){names[i], context->uc_mcontext.regs[i]};
    return count;
}

uint64_t os_link_register(const void *signal_context)
{
    const ucontext_t *context = signal_context;
    return context->uc_mcontext.regs[30];
}

const char *os_architecture(void)
{
    return "aarch64";
}

#elif defined(__riscv)

/* By their number: glibc keeps the program counter in the place of x0, which is always 0. */
size_t os_registers(const void *signal_context, struct os_register registers[OS_REGISTERS_MAX])
{
    static const char *const names[32] = {"pc", "ra", "sp", "gp", "tp",  "t0",  "t1", "t2", "s0", "s1", "a0",
                                          "a1", "a2", "a3", "a4", "a5",  "a6",  "a7", "s2", "s3", "s4", "s5",
                                          "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
    static const int first[] = {0, 2, 8}; /* pc, sp, s0: the frame pointer */
    const ucontext_t *context = signal_context;
    size_t count = 0;
    for (int i = 0; i < 3; i++)
        registers[count++] = (struct os_register){names[first[i]], context->uc_mcontext.__gregs[first[i]]};
    for (int i = 1; i < 32; i++)
        if (i != 2 && i != 8) registers[count++] = (struct os_register){names[i], context->uc_mcontext.__gregs[i]};
    return count;
}

uint64_t os_link_register(const void *signal_context)
{
    const ucontext_t *context = signal_context;
    return context->uc_mcontext.__gregs[1];
}

const char *os_architecture(void)
{
    return "riscv64";
}

#endif
