/* guard_program.c: misuses a sampled block in the way that its argument names; guard_test runs it with
 * HAKMEM_GUARD_SAMPLE set and reads the record. First it prints the block's address as "block ADDRESS", and its threads
 * as "main ID" and "helper ID". */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hakmem/crash.h"

/* Weak: nothing defines them until the library is preloaded. */
#pragma weak hak_crash_handler_install
#pragma weak hak_crash_handler_remove

enum {
    BLOCK_BYTES = 1100,    /* 1104 bytes are usable if the block is sampled; 1152 if it is from a slab */
    ROUNDED_BYTES = 1104,
    LARGER_BYTES = 4000,   /* of a page: 96 bytes before it do not fault */
    TRIES = 100000,
};

#define PLAINLY __attribute__((noinline))

static void tell(const char *name, uint64_t value)
{
    printf("%s %#llx\n", name, (unsigned long long)value);
    fflush(stdout);
}

/* Allocates until malloc returns a sampled block. The earlier blocks stay allocated, so that the bin empties. */
PLAINLY static char *allocate_sampled(size_t size_bytes)
{
    for (int i = 0; i < TRIES; i++) {
        char *block = malloc(size_bytes);
        if (block == NULL) _exit(3);
        memset(block, 'x', size_bytes);
        if (malloc_usable_size(block) == ((size_bytes + 15) & ~(size_t)15)) {
            tell("block", (uintptr_t)block);
            return block;
        }
    }
    _exit(4);
}

PLAINLY static void write_at(volatile char *at)
{
    *at = 1;
}

PLAINLY static char read_at(const volatile char *at)
{
    return *at;
}

PLAINLY static void free_here(void *block)
{
    free(block);
    __asm__ volatile("" : : : "memory"); /* no tail call: it is to be in the backtrace */
}

static void *free_in_helper(void *block)
{
    tell("helper", (uint64_t)syscall(SYS_gettid));
    free_here(block);
    return NULL;
}

PLAINLY static void free_elsewhere(void *block)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, free_in_helper, block) != 0) _exit(5);
    pthread_join(thread, NULL);
}

/* Accesses that are not detected, and do no harm. */
static void within(void)
{
    char *block = allocate_sampled(BLOCK_BYTES);
    write_at(block + ROUNDED_BYTES - 1);
    write_at(block - 1);
    char *moved = realloc(block, BLOCK_BYTES + 1);
    if (moved != block || malloc_usable_size(moved) != ROUNDED_BYTES) _exit(6);
    moved = realloc(block, 20000);
    if (moved == block || moved == NULL || moved[0] != 'x' || moved[BLOCK_BYTES - 1] != 'x') _exit(7);
    free(moved);
    _exit(0);
}

/* A fault that no finding explains. */
static void write_where_writes_are_forbidden(char *at)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (mprotect(at - (uintptr_t)at % page_bytes, page_bytes, PROT_READ) != 0) _exit(10);
    write_at(at);
}

/* A signal that was sent, with the block's address where a fault has its own: a sender has a process and a user there.
 */
static void send_instead_of_a_fault(void *block)
{
    siginfo_t info = {.si_code = SI_QUEUE, .si_signo = SIGSEGV};
    info.si_addr = block;
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGSEGV, &info) != 0) _exit(11);
}

static sigjmp_buf survived;

static void on_survive(int signal_number)
{
    siglongjmp(survived, signal_number);
}

/* Asks for a directory that is refused, then for a good one. */
static void install_after_a_refusal(void)
{
    if (hak_crash_handler_install("/proc/self/exe") != ENOTDIR) _exit(12);
    if (hak_crash_handler_install(getenv("DIRECTORY")) != 0) _exit(13);
}

/* Survives the abort of a free through a handler after hakmem's, then crashes again for another reason. */
static void abort_after(void *freed)
{
    struct sigaction action = {.sa_handler = on_survive, .sa_flags = (int)SA_RESETHAND};
    hak_crash_handler_remove();
    if (sigaction(SIGABRT, &action, NULL) != 0) _exit(8);
    if (hak_crash_handler_install(getenv("HAKMEM_CRASH_DIR")) != 0) _exit(9);
    if (sigsetjmp(survived, 1) == 0) free_here(freed);
    abort();
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    tell("main", (uint64_t)syscall(SYS_gettid));
    if (strcmp(how, "within") == 0) within();
    if (strcmp(how, "before") == 0) write_at(allocate_sampled(LARGER_BYTES) - 97);
    if (strcmp(how, "null") == 0) write_at((volatile char *)(uintptr_t)0);
    char *volatile block = allocate_sampled(BLOCK_BYTES);
    if (strcmp(how, "past_end") == 0) write_at(block + ROUNDED_BYTES);
    if (strcmp(how, "protected") == 0) write_where_writes_are_forbidden(block + 8);
    if (strcmp(how, "free_inside") == 0) free(block + 16);
    if (strcmp(how, "free_past_end") == 0) free(block + ROUNDED_BYTES);
    free_elsewhere(block);
    if (strcmp(how, "sent") == 0) send_instead_of_a_fault(block);
    if (strcmp(how, "refused_first") == 0) install_after_a_refusal();
    if (strcmp(how, "read_after") == 0 || strcmp(how, "refused_first") == 0) return read_at(block + 8);
    if (strcmp(how, "write_after") == 0) write_at(block + 1000);
    if (strcmp(how, "free_twice") == 0) free_here(block);
    if (strcmp(how, "abort_after") == 0) abort_after(block);
    if (strcmp(how, "realloc_after") == 0) block = realloc(block, 5000);
    return 1;
}
