/* call.c: see call.h. */
#include "os/call.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* The instruction that enters the kernel. */
#if defined(__x86_64__)

static intptr_t call_kernel(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    register intptr_t r10 __asm__("r10") = d;
    register intptr_t r8 __asm__("r8") = e;
    register intptr_t r9 __asm__("r9") = f;
    intptr_t result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

#elif defined(__aarch64__)

static intptr_t call_kernel(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    register long x8 __asm__("x8") = number;
    register intptr_t x0 __asm__("x0") = a;
    register intptr_t x1 __asm__("x1") = b;
    register intptr_t x2 __asm__("x2") = c;
    register intptr_t x3 __asm__("x3") = d;
    register intptr_t x4 __asm__("x4") = e;
    register intptr_t x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "cc", "memory");
    return x0;
}

#elif defined(__riscv)

static intptr_t call_kernel(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    register long a7 __asm__("a7") = number;
    register intptr_t a0 __asm__("a0") = a;
    register intptr_t a1 __asm__("a1") = b;
    register intptr_t a2 __asm__("a2") = c;
    register intptr_t a3 __asm__("a3") = d;
    register intptr_t a4 __asm__("a4") = e;
    register intptr_t a5 __asm__("a5") = f;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
}

#endif

/* Through libc. A sanitizer keeps its shadow by the named functions; others it does not watch. */
static intptr_t call_named(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    switch (number) {
    case SYS_mmap: return (intptr_t)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
    case SYS_munmap: return munmap((void *)a, (size_t)b);
    case SYS_openat: return openat((int)a, (const char *)b, (int)c, (mode_t)d);
    case SYS_read: return read((int)a, (void *)b, (size_t)c);
    case SYS_write: return write((int)a, (const void *)b, (size_t)c);
    case SYS_clock_gettime: return clock_gettime((clockid_t)a, (struct timespec *)b);
    case SYS_close: return close((int)a);
    default: return syscall(number, a, b, c, d, e, f);
    }
}

static intptr_t call_libc(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    int saved = errno;
    errno = EIO; /* in the explorer errno is the coroutine's, which the call does not set */
    intptr_t result = call_named(number, a, b, c, d, e, f);
    if (result == -1) result = -errno;
    errno = saved;
    return result;
}

intptr_t call_system(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    return OWN_CALLS ? call_kernel(number, a, b, c, d, e, f) : call_libc(number, a, b, c, d, e, f);
}
