/* registers_program.c: the library works in any state of the registers that a program may leave to malloc:
 *
 *   floating   every exception of floating-point numbers traps, numbers are rounded down, subnormal ones are 0. Nothing is
 *              raised, and the state is as before. With options that sample, write and count
 *   stack      each public function is called on a stack that is aligned to 8 and not to 16, as code without a compiler does.
 *              With the same options. The callback of a limit is called on an aligned one
 *   report     a block is freed twice on such a stack, which the debug-validation library reports
 *
 * The first two go through slow paths, in threads too. */
#include <dlfcn.h>
#include <fenv.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 2000, ROUNDS = 60000, THREADS = 3 };

/* Calls a function with three arguments. With `off` 8 the stack is as the ABI wants it, with 0 it is misaligned. */
void *called(void *function, size_t first, size_t second, size_t third, size_t off);
__asm__(".text\n.type called, @function\n.globl called\ncalled:\n"
        "push %rbp\nmov %rsp, %rbp\nand $-16, %rsp\nsub $8, %rsp\nsub %r8, %rsp\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\ncall *%rax\nleave\nret\n"
        ".size called, . - called\n");

static size_t off = 8;

static void *call(uintptr_t function, size_t first, size_t second)
{
    return called((void *)function, first, second, 0, off);
}

static void *work(void *seed)
{
    static __thread char *blocks[SLOTS];
    uint32_t random = (uint32_t)(uintptr_t)seed;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1103515245 + 12345;
        char **slot = &blocks[(random >> 8) % SLOTS];
        const uint32_t draw = random >> 10;
        const size_t bytes = draw % 900 == 0 ? 3u << 20 : draw % 30 == 0 ? 1 + draw % 300000 : 1 + draw % 3000;
        char *old = *slot, *block = NULL;
        if (draw % 4 == 0) {
            block = call((uintptr_t)realloc, (size_t)old, bytes);
        } else {
            call((uintptr_t)free, (size_t)old, 0);
            if (draw % 5 == 0) block = call((uintptr_t)calloc, 1, bytes);
            else if (draw % 7 == 0) block = call((uintptr_t)aligned_alloc, 64, bytes);
            else if (draw % 11 == 0) block = call((uintptr_t)memalign, 4096, bytes);
            else block = call((uintptr_t)malloc, bytes, 0);
        }
        *slot = block;
        if (block == NULL || (size_t)call((uintptr_t)malloc_usable_size, (size_t)block, 0) < bytes) abort();
        block[0] = block[bytes - 1] = 1;
        if (round % 20000 == 0) call((uintptr_t)malloc_trim, 0, 0);
    }
    for (int i = 0; i < SLOTS; i++) call((uintptr_t)free, (size_t)blocks[i], 0);
    memset(blocks, 0, sizeof blocks);
    return NULL;
}

static void play(void)
{
    work((void *)1);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 2)) != 0) abort();
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* A compiler relies on the frame's address. */
static __attribute__((noinline)) bool is_aligned_here(size_t wanted_bytes, void *calls)
{
    (void)wanted_bytes;
    ++*(int *)calls;
    if ((uintptr_t)__builtin_frame_address(0) % 16 != 0) abort();
    return false;
}

static void fail_at_a_limit(void)
{
    void (*limit_set)(size_t) = (void (*)(size_t))dlsym(RTLD_DEFAULT, "hak_limit_set");
    void (*limit_callback)(bool (*)(size_t, void *), void *) =
        (void (*)(bool (*)(size_t, void *), void *))dlsym(RTLD_DEFAULT, "hak_limit_callback");
    if (limit_set == NULL || limit_callback == NULL) return;
    enum { MIB = 1 << 20, BLOCKS = 10 };
    void *blocks[BLOCKS];
    int calls = 0;
    limit_callback(is_aligned_here, &calls);
    limit_set(80 * MIB);
    for (int i = 0; i < BLOCKS; i++) blocks[i] = call((uintptr_t)malloc, 10 * MIB, 0);
    if (calls == 0) abort();
    for (int i = 0; i < BLOCKS; i++) call((uintptr_t)free, (size_t)blocks[i], 0);
    limit_set(SIZE_MAX);
    limit_callback(NULL, NULL);
}

static void raise_if_caught(int signal)
{
    struct sigaction action;
    if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL) raise(signal);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    if (strcmp(argv[1], "stack") == 0) {
        off = 0;
        play();
        fail_at_a_limit();
        raise_if_caught(SIGUSR1); /* HAKMEM_STATS_SIGNAL and HAKMEM_PROFILE_SIGNAL: files are written */
        raise_if_caught(SIGUSR2);
        play();
    } else if (strcmp(argv[1], "report") == 0) {
        off = 0;
        void *block = malloc(100);
        call((uintptr_t)free, (size_t)block, 0);
        call((uintptr_t)free, (size_t)block, 0);
    } else {
        /* Of the control word of SSE: the exceptions, no mask for any, round down, flush to zero, subnormals are 0. */
        const uint32_t flags = 0x3f, traps = 0x2000 | 0x8040;
        uint32_t control = traps;
        __asm__ volatile("ldmxcsr %0" : : "m"(control));
        play(); /* threads inherit the control word */
        raise_if_caught(SIGUSR1); /* HAKMEM_STATS_SIGNAL and HAKMEM_PROFILE_SIGNAL: files are written */
        raise_if_caught(SIGUSR2);
        play();
        __asm__ volatile("stmxcsr %0" : "=m"(control));
        if (control != traps) {
            fprintf(stderr, "registers-program: the control word is %#x, flags %#x\n", control, control & flags);
            return 1;
        }
    }
    puts("registers-program: pass");
    return 0;
}
