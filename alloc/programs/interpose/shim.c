/* shim.c: stands before each function of libc that the library calls, as a program does that interposes one: it allocates, and
 * then jumps to the function itself. It has no guard against its own recursion: malloc must not lead back to malloc. Preloaded
 * before the library by interpose/check, on x86-64. HAKMEM_TEST_INTERPOSE names the functions that allocate, with a comma behind
 * each, or is "all"; the others only jump. HAKMEM_TEST_INTERPOSE_CALLS is a file to which the end of the process adds a line for
 * each function: its name, and how often the library called it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

// clang-format off
#define FUNCTIONS(X)                                                                                                           \
    X(__errno_location) X(__register_atfork) X(__sigsetjmp) X(__sysconf) X(abort) X(backtrace) X(bcmp) X(clock_gettime)        \
    X(dl_iterate_phdr) X(dlclose) X(dlopen) X(dlsym) X(fprintf) X(fputs) X(getauxval) X(memchr) X(memcpy) X(memmove) X(memset) \
    X(pthread_attr_destroy) X(pthread_attr_init) X(pthread_attr_setstacksize) X(pthread_create) X(pthread_getspecific)         \
    X(pthread_join) X(pthread_key_create) X(pthread_key_delete) X(pthread_setcancelstate) X(pthread_setspecific)               \
    X(pthread_sigmask) X(realpath) X(secure_getenv) X(sigabbrev_np) X(sigaction) X(sigaddset) X(sigdelset) X(sigemptyset)      \
    X(sigfillset) X(siglongjmp) X(sigorset) X(snprintf) X(strchr) X(strcmp) X(strcpy) X(strerrordesc_np) X(strerrorname_np)    \
    X(strlen) X(strncmp) X(strnlen) X(strrchr) X(strspn) X(sysconf) X(vsnprintf)
// clang-format on

enum function {
#define X(name) FUNCTION_##name,
    FUNCTIONS(X)
#undef X
        FUNCTIONS_COUNT
};

static const char *const names[] = {
#define X(name) #name,
    FUNCTIONS(X)
#undef X
};

static void *real[FUNCTIONS_COUNT];
static bool allocates[FUNCTIONS_COUNT];
static _Atomic(uint64_t) calls[FUNCTIONS_COUNT];
static _Atomic(int) found; /* 0: not yet; 1: a thread looks; 2: yes */
static uintptr_t library_start, library_end;

static size_t length(const char *text)
{
    size_t bytes = 0;
    while (text[bytes] != 0) bytes++;
    return bytes;
}

static bool has_prefix(const char *text, const char *prefix)
{
    while (*prefix != 0 && *text == *prefix) text++, prefix++;
    return *prefix == 0;
}

/* By the instruction itself: libc's functions are under test. */
static long call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static void say(long file, const char *text)
{
    call(SYS_write, file, (long)text, (long)length(text));
}

static void fail(const char *what, enum function function)
{
    say(2, "interpose: ");
    say(2, what);
    say(2, names[function]);
    say(2, "\n");
    call(SYS_exit_group, 5, 0, 0);
}

static const char *variable(const char *name)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        if (has_prefix(*entry, name)) return *entry + length(name);
    return "";
}

static bool lists(const char *list, const char *name)
{
    if (has_prefix(list, "all")) return true;
    for (; *list != 0; list++) {
        if (has_prefix(list, name) && list[length(name)] == ',') return true;
        while (*list != 0 && *list != ',') list++;
    }
    return false;
}

static int is_library(struct dl_phdr_info *file, size_t bytes, void *address)
{
    (void)bytes;
    uintptr_t start = UINTPTR_MAX, end = 0;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        if (file->dlpi_phdr[i].p_type != PT_LOAD) continue;
        const uintptr_t from = file->dlpi_addr + file->dlpi_phdr[i].p_vaddr, to = from + file->dlpi_phdr[i].p_memsz;
        start = from < start ? from : start;
        end = to > end ? to : end;
    }
    if ((uintptr_t)address < start || (uintptr_t)address >= end) return 0;
    library_start = start;
    library_end = end;
    return 1;
}

/* At the first call of any, in a process that has one thread. */
static void find(void)
{
    void *(*look_up)(void *, const char *) = NULL;
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && look_up == NULL; i++)
        look_up = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    const char *list = variable("HAKMEM_TEST_INTERPOSE=");
    for (int i = 0; i < FUNCTIONS_COUNT; i++) {
        real[i] = i == FUNCTION_dlsym ? (void *)look_up : look_up(RTLD_NEXT, names[i]);
        allocates[i] = lists(list, names[i]);
    }
    int (*iterate)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
        (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))real[FUNCTION_dl_iterate_phdr];
    iterate(is_library, look_up(RTLD_DEFAULT, "malloc"));
}

enum { KEPT = 8, DEPTH_MAX = 16 };

/* Blocks of every kind, some of which a later call frees. The ends of each have a mark of it. */
static void allocate(enum function function)
{
    static __thread struct {
        volatile unsigned char *start;
        size_t bytes;
    } kept[KEPT];
    static __thread unsigned depth, count;
    static const size_t sizes[] = {24, 700, 48, 5000, 16, 100000, 2000, 33000, 3 << 20};
    if (++depth > DEPTH_MAX) fail("malloc leads back to malloc by ", function);
    const unsigned number = count++;
    const size_t bytes = number % 64 == 63 ? sizes[8] : sizes[number % 8];
    volatile unsigned char *block = malloc(bytes);
    if (block == NULL) fail("no memory in ", function);
    block[0] = block[bytes - 1] = (unsigned char)(uintptr_t)&block[number % 7 == 0];
    volatile unsigned char *gone = kept[number % KEPT].start;
    if (gone != NULL) {
        const size_t gone_bytes = kept[number % KEPT].bytes;
        if (gone[0] != gone[gone_bytes - 1]) fail("a block was changed: seen in ", function);
        kept[number % KEPT].start = NULL;
        free((void *)gone);
    }
    if (bytes > 100000 || kept[number % KEPT].start != NULL) { /* the second: a call within free has taken the place */
        free((void *)block);
    } else {
        kept[number % KEPT].start = block;
        kept[number % KEPT].bytes = bytes;
    }
    depth--;
}

/* Called by each function below with its number and its caller. Returns where to jump. */
__attribute__((used)) void *interpose_enter(enum function function, uintptr_t caller)
{
    int before = 0;
    if (atomic_compare_exchange_strong(&found, &before, 1)) {
        find();
        atomic_store(&found, 2);
    }
    if (caller - library_start < library_end - library_start) atomic_fetch_add(&calls[function], 1);
    if (before != 1 && allocates[function]) allocate(function);
    return real[function];
}

__asm__(
    ".pushsection .text\n"
    "interpose_common:\n" /* the number is in r11 */
    "    push %rbp\n"
    "    mov %rsp, %rbp\n"
    "    push %rdi\n    push %rsi\n    push %rdx\n    push %rcx\n    push %r8\n    push %r9\n    push %rax\n"
    "    sub $136, %rsp\n"
    "    movups %xmm0, (%rsp)\n    movups %xmm1, 16(%rsp)\n    movups %xmm2, 32(%rsp)\n    movups %xmm3, 48(%rsp)\n"
    "    movups %xmm4, 64(%rsp)\n    movups %xmm5, 80(%rsp)\n    movups %xmm6, 96(%rsp)\n    movups %xmm7, 112(%rsp)\n"
    "    mov %r11d, %edi\n"
    "    mov 8(%rbp), %rsi\n"
    "    call interpose_enter\n"
    "    mov %rax, %r11\n"
    "    movups (%rsp), %xmm0\n    movups 16(%rsp), %xmm1\n    movups 32(%rsp), %xmm2\n    movups 48(%rsp), %xmm3\n"
    "    movups 64(%rsp), %xmm4\n    movups 80(%rsp), %xmm5\n    movups 96(%rsp), %xmm6\n    movups 112(%rsp), %xmm7\n"
    "    add $136, %rsp\n"
    "    pop %rax\n    pop %r9\n    pop %r8\n    pop %rcx\n    pop %rdx\n    pop %rsi\n    pop %rdi\n"
    "    pop %rbp\n"
    "    jmp *%r11\n"
    ".popsection\n");

#define X(name)                                                                            \
    extern void shim_##name(void) __asm__(#name);                                          \
    __attribute__((naked, used)) void shim_##name(void)                                    \
    {                                                                                      \
        __asm__ volatile("mov %0, %%r11d\n\tjmp interpose_common" ::"i"(FUNCTION_##name)); \
    }
FUNCTIONS(X)
#undef X

__attribute__((destructor)) static void write_calls(void)
{
    const char *path = variable("HAKMEM_TEST_INTERPOSE_CALLS=");
    const long file = *path == 0 ? -1 : call(SYS_open, (long)path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0) return;
    for (int i = 0; i < FUNCTIONS_COUNT; i++) {
        char digits[24], *at = digits + sizeof digits - 1;
        *at = 0;
        uint64_t count = atomic_load(&calls[i]);
        do *--at = (char)('0' + count % 10);
        while ((count /= 10) != 0);
        say(file, names[i]);
        say(file, " ");
        say(file, at);
        say(file, "\n");
    }
    call(SYS_close, file, 0, 0);
}
