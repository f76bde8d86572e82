/* own_thread.c: see own_thread.h. */
#include "os/own_thread.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/config.h"

enum {
    SANITIZER_FACTOR = HAK_SANITIZE_ADDRESS || HAK_SANITIZE_THREAD || HAK_SANITIZE_MEMORY ? 4 : 1,
    LIBC_BYTES = 64 * 1024, /* libc's own part of a thread, and what it sets aside for modules that are loaded later */
    GROWTHS_LOG2_MAX = 8, /* how often a stack that libc calls too small is doubled */
};

static int add_module(struct dl_phdr_info *module, size_t size_bytes, void *total_bytes)
{
    (void)size_bytes;
    for (size_t i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[i];
        if (part->p_type == PT_TLS) *(size_t *)total_bytes += part->p_memsz + part->p_align;
    }
    return 0;
}

/* The thread-local data of all modules. Only that of modules which were loaded at start lies on the stack, so this is too
 * much at worst. musl adds it itself. */
static size_t thread_local_bytes(void)
{
    size_t bytes = 0;
    dl_iterate_phdr(add_module, &bytes);
    return bytes;
}

/* The system's minimum grows with the registers that it saves at a signal. */
static size_t minimum_bytes(void)
{
    size_t least = (size_t)PTHREAD_STACK_MIN;
#ifdef _SC_THREAD_STACK_MIN
    long said = sysconf(_SC_THREAD_STACK_MIN);
    if (said > 0 && (size_t)said > least) least = (size_t)said;
#endif
    return least;
}

size_t own_thread_stack_bytes(void)
{
    size_t bytes =
        (size_t)OWN_THREAD_STACK_BYTES * SANITIZER_FACTOR + minimum_bytes() + LIBC_BYTES + thread_local_bytes();
    return round_up(bytes, PAGE_BYTES);
}

/* libc answers EINVAL if its part alone does not fit, which a tunable of glibc can make as large as it likes. */
static int create(pthread_t *thread, pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
    size_t bytes = own_thread_stack_bytes();
    int error = EINVAL;
    for (int growth = 0; error == EINVAL && growth <= GROWTHS_LOG2_MAX; growth++) {
        pthread_attr_setstacksize(attributes, bytes << growth);
        error = pthread_create(thread, attributes, function, argument);
    }
    return error;
}

int own_thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int saved = errno, error = pthread_attr_init(&attributes);
    if (error == 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it */
        error = create(thread, &attributes, function, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    errno = saved;
    return error;
}

void own_thread_join(pthread_t thread)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_join(thread, NULL);
    pthread_setcancelstate(before, NULL);
}
