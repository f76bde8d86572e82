/* own_stack.c: see own_stack.h. */
#include "os/own_stack.h"

#include <stdint.h>

/* Whether another stack may be used: see own_stack_call. */
enum { SWITCHES = !HAKMEM_FIBERS && !HAK_SANITIZE_ADDRESS && !HAK_SANITIZE_THREAD && !HAK_SANITIZE_MEMORY };

_Alignas(4096) char own_stack[OWN_STACK_BYTES];

/* Those that the called function may change. The library itself is compiled to use none. */
#ifdef __SSE__
#define VECTOR_REGISTERS                                                                                       \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15",
#else
#define VECTOR_REGISTERS
#endif

/* The stack pointer of before lies in a register that the called function preserves. A name of the argument's register makes
 * the compiler put it there. Asking for the frame's address gives this function a frame pointer, so that a debugger finds its
 * frame from the other stack. */
static HAK_NOINLINE void switch_and_call(own_stack_fn *function, void *argument)
{
    uintptr_t top = (uintptr_t)own_stack + OWN_STACK_BYTES;
    __asm__ volatile("" : : "r"(__builtin_frame_address(0)));
#if defined(__x86_64__)
    register void *first __asm__("rdi") = argument;
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %[top], %%rsp\n\t"
                     "call *%[function]\n\t"
                     "movq %%rbx, %%rsp"
                     : "+r"(first)
                     : [top] "r"(top), [function] "r"(function)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", VECTOR_REGISTERS "memory", "cc");
#elif defined(__aarch64__)
    register void *first __asm__("x0") = argument;
    __asm__ volatile("mov x19, sp\n\t"
                     "mov sp, %[top]\n\t"
                     "blr %[function]\n\t"
                     "mov sp, x19"
                     : "+r"(first)
                     : [top] "r"(top), [function] "r"(function)
                     : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
                       "x16", "x17", "x18", "x19", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9",
                       "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
                       "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
#elif defined(__riscv)
    register void *first __asm__("a0") = argument;
    __asm__ volatile("mv s1, sp\n\t"
                     "mv sp, %[top]\n\t"
                     "jalr %[function]\n\t"
                     "mv sp, s1"
                     : "+r"(first)
                     : [top] "r"(top), [function] "r"(function)
                     : "ra", "s1", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
                       "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "ft8", "ft9", "ft10", "ft11", "fa0",
                       "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "memory");
#else
#error "hakmem: unknown processor: say in own_stack.c how a function is called on another stack"
#endif
}

void own_stack_call(own_stack_fn *function, void *argument)
{
    if (SWITCHES) switch_and_call(function, argument);
    else function(argument);
}
