/* hooked_program.c: defines the functions of libc that make system calls, as programs do that watch their memory or files.
 * The library must call none of them: such a function may take a lock that the caller of malloc holds, or call malloc, and
 * some are cancellation points. With any malloc that goes through one of them it prints the name and ends with status 1.
 * libc's own calls do not come here.
 *
 * Run with the library preloaded, or linked with it, and with all options that make the library call the system. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Never returns, and calls nothing that is hooked here. */
__attribute__((noreturn)) static void hooked(const char *name)
{
    fprintf(stderr, "hooked-program: the library called %s\n", name);
    fflush(stderr);
    __builtin_trap();
}

/* Functions of libc that make a system call. Their types do not matter here, since none returns. */
// clang-format off
#define CALLS(X)                                                                                                       \
    X(access) X(brk) X(close) X(creat) X(fstat) X(getcwd) X(getpid) X(getrlimit) X(getrlimit64) X(gettid) X(lseek)     \
    X(madvise) X(mincore) X(mmap) X(mmap64) X(mprotect) X(mremap) X(munmap) X(nanosleep) X(open) X(open64) X(openat)   \
    X(openat64) X(pipe) X(pipe2) X(prctl) X(pread) X(prlimit) X(prlimit64) X(process_vm_readv) X(pwrite) X(read)       \
    X(readlink) X(rename) X(sbrk) X(sched_yield) X(sigaltstack) X(sigpending) X(sigprocmask) X(sigtimedwait) X(stat)   \
    X(syscall) X(tgkill) X(unlink) X(usleep) X(write) X(writev)
// clang-format on
#define X(name)                                   \
    extern long hook_##name(void) __asm__(#name); \
    __attribute__((used)) long hook_##name(void)  \
    {                                             \
        hooked(#name);                            \
    }
CALLS(X)
#undef X

enum { SLOTS = 3000, THREADS = 4, ROUNDS = 60000 };

/* Every kind of block, in every way that changes hands: small ones, runs, huge ones, aligned ones, resized ones. */
static void *work(void *seed)
{
    static __thread void *blocks[SLOTS];
    uint32_t random = (uint32_t)(uintptr_t)seed;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1103515245 + 12345;
        void **block = &blocks[random % SLOTS];
        const uint32_t draw = random >> 12;
        const size_t bytes = draw % 400 == 0 ? 1 << 22 : draw % 40 == 0 ? 1 + draw % 300000 : 1 + draw % 2000;
        if (draw % 3 == 0) {
            void *larger = realloc(*block, bytes);
            if (larger != NULL) *block = larger;
        } else {
            free(*block);
            *block = draw % 5 == 0 ? calloc(1, bytes) : draw % 7 == 0 ? aligned_alloc(4096, bytes) : malloc(bytes);
        }
        if (*block != NULL) *(char *)*block = 1;
    }
    for (int i = 0; i < SLOTS; i++) free(blocks[i]);
    return NULL;
}

static void raise_if_caught(int signal)
{
    struct sigaction action;
    if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL) raise(signal);
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int round = 0; round < 3; round++) {
        for (uintptr_t i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0) return 2;
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        malloc_trim(0);
    }
    void *volatile impossible = malloc((size_t)1 << 50);
    if (impossible != NULL) return 3;
    const pid_t child = fork();
    if (child == 0) {
        work((void *)7);
        _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 4;
    raise_if_caught(SIGUSR1); /* HAKMEM_STATS_SIGNAL and HAKMEM_PROFILE_SIGNAL: files are written */
    raise_if_caught(SIGUSR2);
    work((void *)9);
    puts("hooked-program: pass");
    return 0;
}
