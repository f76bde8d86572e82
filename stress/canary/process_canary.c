/* A malloc with one planted bug that shows only when threads end, fork, are cancelled or interrupted, or when the
 * system refuses memory. It forwards to libc. process_canary_test.cc says what must find each bug. */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "canary/books.h"

enum bug {
    CANARY_CANCEL_POINT,     /* malloc acts on a pending cancellation */
    CANARY_FORK_HANG,        /* in the child of a fork malloc does not return */
    CANARY_FORK_CRASH,       /* in the child of a fork free aborts */
    CANARY_FORK_OVERLAP,     /* in the child of a fork one block is handed out again and again */
    CANARY_DESTRUCTOR_CRASH, /* free aborts after the malloc's own destructor of the thread has run */
    CANARY_OOM_CRASH,        /* touches memory that mmap refused to give */
    CANARY_OOM_FOR_EVER,     /* after one failure no request succeeds any more */
    CANARY_OOM_HANG,         /* after one failure malloc waits for ever */
    CANARY_OOM_KILLED,       /* after more failures than a run without a fault has, a SIGKILL, as from outside */
    CANARY_OOM_LOST,         /* realloc frees the block when it fails */
    CANARY_OOM_LEAK,         /* the next free after a failure does nothing; books.c shows it */
    CANARY_DEEP_STACK,       /* malloc needs 20 KiB of stack */
    CANARY_OWN_THREAD,       /* has a thread of its own that does not block signals */
};

static const enum bug BUG = CANARY_BUG;

enum { DEEP_BYTES = 20 << 10 };

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *block, size_t size_bytes);
void *__libc_memalign(size_t align_bytes, size_t size_bytes);

static char shared_block[4096] __attribute__((aligned(4096)));
static bool armed, in_child, has_failed;
static _Atomic(unsigned) failures;
static _Atomic bool loses_next;
size_t canary_lost_bytes;
static _Thread_local bool thread_is_done __attribute__((tls_model("initial-exec")));
static _Thread_local bool key_is_set __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_end;
static atomic_flag own_thread_started = ATOMIC_FLAG_INIT;

static void at_child(void)
{
    in_child = true;
}

static void at_thread_end(void *value)
{
    (void)value;
    thread_is_done = true;
}

static void *own_thread(void *unused)
{
    for (;;) pause();
    return unused;
}

static void own_thread_start(void)
{
    pthread_t thread;
    sigset_t none, before;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    pthread_create(&thread, NULL, own_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((constructor)) static void canary_start(void)
{
    pthread_key_create(&thread_end, at_thread_end);
    pthread_atfork(NULL, NULL, at_child);
    armed = true;
}

static void strike_before(void)
{
    if (!armed) return;
    if (BUG == CANARY_CANCEL_POINT) pthread_testcancel();
    while (BUG == CANARY_FORK_HANG && in_child) usleep(1000);
    /* Not pthread_once: starting a thread allocates, which leads back here. */
    if (BUG == CANARY_OWN_THREAD && key_is_set && !atomic_flag_test_and_set(&own_thread_started)) own_thread_start();
    if (!key_is_set) {
        key_is_set = true;
        pthread_setspecific(thread_end, &key_is_set);
    }
    if (BUG == CANARY_DEEP_STACK) {
        volatile char *deep = alloca(DEEP_BYTES);
        for (size_t i = 0; i < DEEP_BYTES; i += 512) deep[DEEP_BYTES - 1 - i] = 1;
    }
}

static void *strike_after(void *block)
{
    if (!armed) return block;
    if (BUG == CANARY_OOM_CRASH && block == NULL) *(volatile char *)block = 0;
    has_failed |= block == NULL;
    loses_next |= block == NULL;
    while (BUG == CANARY_OOM_HANG && has_failed) usleep(1000);
    if (BUG == CANARY_OOM_KILLED && block == NULL && ++failures == 20) kill(getpid(), SIGKILL);
    if (BUG == CANARY_OOM_FOR_EVER && has_failed) {
        __libc_free(block);
        errno = ENOMEM;
        return NULL;
    }
    return block;
}

void *malloc(size_t size_bytes)
{
    strike_before();
    if (BUG == CANARY_FORK_OVERLAP && in_child && size_bytes <= sizeof shared_block) return shared_block;
    return strike_after(__libc_malloc(size_bytes));
}

void free(void *block)
{
    if (block == shared_block) return;
    if (BUG == CANARY_DESTRUCTOR_CRASH && block != NULL && thread_is_done) abort();
    if (BUG == CANARY_FORK_CRASH && block != NULL && in_child) abort();
    if (BUG == CANARY_OOM_LEAK && block != NULL && atomic_exchange(&loses_next, false)) {
        __atomic_fetch_add(&canary_lost_bytes, malloc_usable_size(block), __ATOMIC_RELAXED);
        return;
    }
    __libc_free(block);
}

void *calloc(size_t count, size_t size_bytes)
{
    strike_before();
    return strike_after(__libc_calloc(count, size_bytes));
}

void *realloc(void *block, size_t size_bytes)
{
    strike_before();
    if (block == shared_block) return size_bytes <= sizeof shared_block ? block : NULL;
    if (BUG == CANARY_OOM_FOR_EVER && has_failed) {
        errno = ENOMEM;
        return NULL;
    }
    void *moved = __libc_realloc(block, size_bytes);
    if (moved == NULL && size_bytes != 0) strike_after(moved);
    if (BUG == CANARY_OOM_LOST && moved == NULL && block != NULL && size_bytes != 0) {
        const int error = errno;
        *(char *)block ^= 1; /* as its next owner would */
        __libc_free(block);
        errno = error;
    }
    return moved;
}

void *memalign(size_t align_bytes, size_t size_bytes)
{
    return strike_after(__libc_memalign(align_bytes, size_bytes));
}
