/* A malloc with one planted bug, to prove that a conformance check finds it. It forwards to libc and misbehaves in one
 * narrow way, as CONFORM_BUG says, so that the other checks pass. CONFORM_NONE must pass them all.
 *
 * More than 400 lines: most bugs are one line in a call that all of them share. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CONFORM_BUGS(X)                                                                           \
    X(NONE)                                                                                       \
    X(MALLOC_ERRNO)     /* malloc of an impossible size does not set errno */                         \
    X(PTRDIFF_ERRNO)    /* malloc of 2^60 bytes crashes, and of PTRDIFF_MAX does not set errno */    \
    X(HELD)             /* a list of free blocks of 136 bytes takes a block from an old head */               \
    X(POPPED)           /* the same of 48 bytes, with no system call between */                             \
    X(CALLOC_WRAPS)     /* calloc(SIZE_MAX / 2 + 1, 2) returns a small block */                       \
    X(REALLOC_FREES)    /* realloc to an impossible size frees the block */                          \
    X(REALLOC_32_BITS)  /* realloc uses only 32 bits of a size */                                  \
    X(REALLOCARRAY_WRAPS)                                                                         \
    X(USABLE_NULL)      /* malloc_usable_size(NULL) crashes */                                         \
    X(NO_PVALLOC)       /* pvalloc is left to libc */                                                   \
    X(MEMALIGN_256)     /* memalign(256, 256) is misaligned */                                        \
    X(ALIGN_AGAIN)      /* memalign of 5 MiB is misaligned after such a block was freed */             \
    X(MEMALIGN_WRAPS)   /* size + alignment wraps */                                                \
    X(POSIX_POINTER)    /* a failing posix_memalign writes *memptr */                                \
    X(FREE_ERRNO)       /* free changes errno */                                                        \
    X(FREE_ERRNO_DENIED) /* free changes errno when munmap fails */                               \
    X(CALLOC_DIRTY)     /* calloc of recycled memory is not zero */                                   \
    X(CALLOC_LAST_BYTE) /* calloc with a count of 7 does not clear the last byte */               \
    X(LATE_MALLOC)      /* malloc after the thread's destructor aborts */                              \
    X(ONLY_FREE)        /* free in a thread that never allocated aborts */                               \
    X(LATE_FREE)        /* free of a large block in a thread that never allocated does nothing */        \
    X(REALLOC_NULL)     /* realloc(NULL, 0) is NULL, and malloc(0) is not */                          \
    X(UNLOAD)           /* a key destructor stays registered after dlclose */                               \
    X(STACK)            /* malloc needs 64 KiB of stack */                                                   \
    X(FORK_LOCK)        /* fork while another thread is in malloc: the child hangs */                    \
    X(FORK_HANDLERS)    /* atfork handlers hold the lock across fork */                              \
    X(STATIC_TLS)       /* has too much static thread-local data for dlopen */                          \
    X(LOADER_LOCK)      /* malloc takes the loader's lock */                                           \
    X(ENVIRON)          /* malloc reads the environment */                                                 \
    X(ENVIRON_EXIT)     /* malloc ends a process without an environment, with status 0 */             \
    X(GETRANDOM)        /* aborts if getrandom is denied */                                              \
    X(MALLOPT)          /* after mallopt(M_MXFAST, 0) malloc fails */                                      \
    X(HELPER)           /* a thread of the library accepts signals */                                       \
    X(CANCEL)           /* malloc is a cancellation point */                                                \
    X(CALLOC_SLACK)     /* calloc(1, n) does not clear a byte behind the n */                         \
    X(SECURE)           /* obeys the environment under AT_SECURE */                                         \
    X(CALLOC_ERRNO)     /* calloc of an impossible size does not set errno, and so below */           \
    X(REALLOC_ERRNO)                                                                              \
    X(REALLOCARRAY_ERRNO)                                                                         \
    X(ALIGNED_ERRNO)                                                                              \
    X(VALLOC_ERRNO)                                                                               \
    X(ALIGN_2_60)       /* memalign of an alignment of 2^60 gives a block */                            \
    X(POSIX_0)          /* posix_memalign of size 0 forgets the alignment */                               \
    X(PVALLOC_SHORT)    /* pvalloc does not round the size up */                                     \
    X(REALLOCARRAY_NULL) /* reallocarray(NULL, n, size) is NULL */                                \
    X(REALLOC_STEPS)    /* realloc that grows a large block always copies it */                      \
    X(CALLOC_TOUCH)     /* calloc clears what the system gave as zeros */                             \
    X(LEAVE_SPACE)      /* under a limit, each thread keeps 32 MiB of address space after its end */   \
    X(BEGIN_ONCE)       /* the first malloc opens a file by the function that others may replace */     \
    X(LATE_LIBRARY)     /* malloc after the library's own destructor aborts */                        \
    X(REALLOCARR_WRAPS) /* reallocarr does not see that the product wraps */                      \
    X(FORK_FORK)        /* malloc in the third of a chain of children aborts; a check is in the first */ \
    X(FORK_THREAD)      /* malloc in the child of a thread that is not the first aborts */             \
    X(TOUCH)            /* malloc of more than 1 GiB writes to 2 GiB of it */                                \
    X(SPIN)             /* realloc to an impossible size never returns */                                     \
    X(KILLED)           /* realloc to an impossible size meets a SIGKILL, as from outside */                \
    X(SLUGGISH)         /* each malloc takes 60 ms of processor time */

enum bug {
#define CONFORM_ENUMERATOR(name) CONFORM_##name,
    CONFORM_BUGS(CONFORM_ENUMERATOR)
};

static const enum bug BUG = CONFORM_BUG;

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *block, size_t size_bytes);
void *__libc_memalign(size_t align_bytes, size_t size_bytes);
void *__libc_valloc(size_t size_bytes);
void *__libc_pvalloc(size_t size_bytes);

extern char **environ;

enum { HUGE_BYTES = 17 << 20 }; /* a size that little else than a round through all sizes asks for */
enum { AGAIN_BYTES = 5 << 20 };
static volatile bool freed_again; /* ALIGN_AGAIN: a block of that size, or a larger one, was freed, as glibc notes it */

static __thread bool allocated __attribute__((tls_model("initial-exec")));
static __thread bool ended __attribute__((tls_model("initial-exec")));
#if CONFORM_BIG_TLS
__thread char conform_big_tls[16384] __attribute__((tls_model("initial-exec")));
#endif

static bool armed; /* set once the program itself runs; nothing goes wrong before */
static pthread_key_t key;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool fast_size_0;
static bool limited; /* LEAVE_SPACE: the process began with a limit on its address space */
static bool over; /* the library's destructor has run */

static void *libc_symbol(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void on_thread_exit(void *value)
{
    (void)value;
    ended = true;
}

/* Of the bugs FORK_FORK and FORK_THREAD. */
static unsigned forks;
static bool child_of_thread;

static void before_fork(void)
{
    child_of_thread = gettid() != getpid();
}
static void in_child(void)
{
    forks++;
}

static void lock_take(void)
{
    pthread_mutex_lock(&lock);
}
static void lock_release(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void canary_start(void)
{
    char byte;
    if (BUG == CONFORM_GETRANDOM && getrandom(&byte, 1, 0) != 1) abort();
    if (BUG == CONFORM_LATE_MALLOC || BUG == CONFORM_UNLOAD) pthread_key_create(&key, on_thread_exit);
    if (BUG == CONFORM_FORK_HANDLERS) pthread_atfork(lock_take, lock_release, lock_release);
    if (BUG == CONFORM_FORK_FORK || BUG == CONFORM_FORK_THREAD) pthread_atfork(before_fork, NULL, in_child);
    struct rlimit space;
    limited = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < (size_t)1 << 30;
    armed = true;
}

__attribute__((destructor)) static void canary_end(void)
{
    static const char text[] = "canary: statistics\n";
    if (BUG == CONFORM_SECURE && getenv("CONFORM_CANARY_STATS") != NULL &&
        write(STDERR_FILENO, text, sizeof text - 1) < 0)
        abort();
    over = true;
}

/* What only the first malloc of the process, of a thread, or after the end does. False: there is no memory. */
static bool first_and_last(void)
{
    static bool asked;
    if (BUG == CONFORM_BEGIN_ONCE && !asked) {
        asked = true;
        close(open("/dev/null", O_RDONLY));
    }
    if (BUG == CONFORM_LATE_LIBRARY && over) abort();
    if (BUG != CONFORM_LEAVE_SPACE || !limited || allocated) return true;
    return mmap(NULL, 32 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

static void *helper(void *unused)
{
    for (;;) nanosleep(&(struct timespec){1, 0}, NULL);
    return unused;
}

/* Unblocks the signals that the starting thread blocks. */
static void *helper_start(void *unused)
{
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    return helper(unused);
}

static int nothing(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info, (void)size, (void)data;
    return 1;
}

__attribute__((noinline)) static void use_stack(void)
{
    volatile char bytes[65536];
    for (size_t i = 0; i < sizeof bytes; i += 512) bytes[i] = 1;
}

static void work_ms(long milliseconds)
{
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < milliseconds);
}

static void before_malloc(size_t size_bytes)
{
    static _Thread_local bool inside __attribute__((tls_model("initial-exec")));
    if (!armed || inside) return;
    inside = true;
    if (BUG == CONFORM_LATE_MALLOC && ended) abort();
    if ((BUG == CONFORM_LATE_MALLOC || BUG == CONFORM_UNLOAD) && !ended) pthread_setspecific(key, &key);
    if (BUG == CONFORM_STACK) use_stack();
    if (BUG == CONFORM_LOADER_LOCK && size_bytes == HUGE_BYTES) dl_iterate_phdr(nothing, NULL);
    if (BUG == CONFORM_ENVIRON && environ[0] == NULL) abort();
    if (BUG == CONFORM_ENVIRON_EXIT && environ == NULL) _exit(0);
    if (BUG == CONFORM_SLUGGISH) work_ms(60);
    if (BUG == CONFORM_FORK_FORK && forks > 2) abort();
    if (BUG == CONFORM_FORK_THREAD && forks > 0 && child_of_thread) abort();
    if (BUG == CONFORM_CANCEL && size_bytes == HUGE_BYTES) pthread_testcancel();
    if (BUG == CONFORM_HELPER && size_bytes == HUGE_BYTES) {
        static pid_t started_in;
        pthread_t thread;
        if (started_in != getpid() && pthread_create(&thread, NULL, helper_start, NULL) == 0) started_in = getpid();
    }
    inside = false;
}

/* HELD, POPPED: freed blocks of 136 or 48 bytes in a list. A head that was taken and put back meanwhile is taken for the same
 * list. */
static _Atomic(void *) held_blocks;
enum { LISTED_BYTES = CONFORM_BUG == CONFORM_HELD ? 136 : CONFORM_BUG == CONFORM_POPPED ? 48 : 0 };

static void *held_take(void)
{
    void *head = atomic_load(&held_blocks);
    while (head != NULL) {
        void *next = *(void *volatile *)head;
        const int before = errno;
        while (BUG == CONFORM_HELD && clock() < 0) continue; /* some time: a system call in which a signal may come */
        errno = before;
        for (volatile int i = 0; BUG == CONFORM_POPPED && i < 64; i++) continue; /* so that few rounds show it */
        if (atomic_compare_exchange_strong(&held_blocks, &head, next)) return head;
    }
    return NULL;
}

static bool held_put(void *block)
{
    if ((((size_t *)block)[-1] & ~(size_t)7) != (LISTED_BYTES + 8 + 15) / 16 * 16)
        return false; /* as glibc notes it; its function for it calls free */
    void *head = atomic_load(&held_blocks);
    do *(void **)block = head;
    while (!atomic_compare_exchange_strong(&held_blocks, &head, block));
    return true;
}

void *malloc(size_t size_bytes)
{
    before_malloc(size_bytes);
    bool refused = !first_and_last();
    allocated = true;
    if (fast_size_0 || refused) {
        errno = ENOMEM;
        return NULL;
    }
    const int before = errno;
    const bool locks = BUG == CONFORM_FORK_HANDLERS || (BUG == CONFORM_FORK_LOCK && size_bytes > 1 << 20);
    if (locks) lock_take();
    /* Calls for memory with this lock held and no other. Inside its own calls libc holds an arena's lock, which fork
     * waits for; whether this lock is still held when fork continues would then be chance. */
    if (BUG == CONFORM_FORK_LOCK && locks)
        munmap(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    void *block = LISTED_BYTES != 0 && armed && size_bytes == LISTED_BYTES ? held_take() : NULL;
    if (BUG == CONFORM_PTRDIFF_ERRNO && size_bytes == (size_t)1 << 60) abort();
    if (block == NULL) block = __libc_malloc(size_bytes);
    if (BUG == CONFORM_PTRDIFF_ERRNO && size_bytes == PTRDIFF_MAX) errno = before;
    if (locks) lock_release();
    if (BUG == CONFORM_TOUCH && block != NULL && size_bytes > (size_t)1 << 30)
        memset(block, 0, size_bytes < (size_t)2 << 30 ? size_bytes : (size_t)2 << 30);
    if (BUG == CONFORM_MALLOC_ERRNO && block == NULL && size_bytes > PTRDIFF_MAX) errno = before;
    return block;
}

void free(void *block)
{
    if (BUG == CONFORM_ONLY_FREE && armed && block != NULL && !allocated) abort();
    if (BUG == CONFORM_LATE_FREE && armed && block != NULL && !allocated && malloc_usable_size(block) > 65536) return;
    if (BUG == CONFORM_ALIGN_AGAIN && block != NULL && ((size_t *)block)[-1] > AGAIN_BYTES) freed_again = true;
    if (BUG == CONFORM_FREE_ERRNO && block != NULL) errno = EINVAL;
    if (BUG == CONFORM_FREE_ERRNO_DENIED && munmap((void *)(16 << 20), 4096) != 0) return;
    if (LISTED_BYTES != 0 && armed && block != NULL && held_put(block)) return;
    __libc_free(block);
}

void *calloc(size_t count, size_t size_bytes)
{
    if (BUG == CONFORM_CALLOC_WRAPS && count == SIZE_MAX / 2 + 1 && size_bytes == 2) return __libc_calloc(1, 16);
    if (BUG == CONFORM_CALLOC_DIRTY && armed && count == 1 && size_bytes > 256) return malloc(size_bytes);
    const int before = errno;
    char *block = __libc_calloc(count, size_bytes);
    if (BUG == CONFORM_CALLOC_ERRNO && block == NULL && (count == 1 || size_bytes == 1)) errno = before;
    if (BUG == CONFORM_CALLOC_SLACK && count == 1 && block != NULL && malloc_usable_size(block) > size_bytes)
        block[size_bytes] = 1;
    if (BUG == CONFORM_CALLOC_TOUCH && block != NULL && count == 1 && size_bytes > 1 << 20)
        memset(block, 0, size_bytes);
    if (BUG == CONFORM_CALLOC_LAST_BYTE && count == 7 && size_bytes > 1 && block != NULL) block[7 * size_bytes - 1] = 1;
    return block;
}

void *realloc(void *block, size_t size_bytes)
{
    allocated = true;
    const int before = errno;
    if (BUG == CONFORM_REALLOC_NULL && block == NULL && size_bytes == 0) return NULL;
    if (BUG == CONFORM_KILLED && size_bytes > PTRDIFF_MAX) kill(getpid(), SIGKILL);
    while (BUG == CONFORM_SPIN && size_bytes > PTRDIFF_MAX) continue;
    if (BUG == CONFORM_REALLOC_32_BITS && size_bytes > UINT32_MAX && size_bytes < (size_t)1 << 40)
        size_bytes = (uint32_t)size_bytes;
    if (BUG == CONFORM_REALLOC_STEPS && block != NULL && size_bytes > 1 << 20 && size_bytes < 40 << 20) {
        size_t usable = malloc_usable_size(block);
        void *larger = usable < size_bytes || usable > size_bytes + 65536 ? NULL : __libc_malloc(size_bytes);
        if (larger != NULL) {
            memcpy(larger, block, size_bytes);
            __libc_free(block);
            return larger;
        }
    }
    void *moved = __libc_realloc(block, size_bytes);
    if (BUG == CONFORM_REALLOC_FREES && moved == NULL && size_bytes > PTRDIFF_MAX) {
        __libc_free(block);
        errno = ENOMEM;
    }
    if (BUG == CONFORM_REALLOC_ERRNO && moved == NULL && size_bytes > PTRDIFF_MAX) errno = before;
    return moved;
}

void *reallocarray(void *block, size_t count, size_t size_bytes)
{
    size_t product;
    if (__builtin_mul_overflow(count, size_bytes, &product) && BUG != CONFORM_REALLOCARRAY_WRAPS) {
        errno = ENOMEM;
        return NULL;
    }
    if (BUG == CONFORM_REALLOCARRAY_NULL && block == NULL) return NULL;
    const int before = errno;
    void *moved = realloc(block, product);
    if (BUG == CONFORM_REALLOCARRAY_ERRNO && moved == NULL && product > PTRDIFF_MAX) errno = before;
    return moved;
}

#if CONFORM_WITH_REALLOCARR
int reallocarr(void *pointer, size_t count, size_t size_bytes)
{
    void **block = pointer;
    if (count == 0 || size_bytes == 0) {
        free(*block);
        *block = NULL;
        return 0;
    }
    void *moved = __libc_realloc(*block, count * size_bytes + 1); /* the bug */
    if (moved == NULL) return ENOMEM;
    *block = moved;
    return 0;
}
#endif

void *memalign(size_t align_bytes, size_t size_bytes)
{
    allocated = true;
    if (BUG == CONFORM_MEMALIGN_256 && align_bytes == 256 && size_bytes == 256) return __libc_malloc(256);
    if (BUG == CONFORM_ALIGN_AGAIN && freed_again && size_bytes == AGAIN_BYTES) return __libc_malloc(size_bytes);
    if (BUG == CONFORM_MEMALIGN_WRAPS && size_bytes % 64 != 0 && size_bytes + align_bytes < size_bytes)
        return __libc_memalign(align_bytes, size_bytes + align_bytes);
    if (BUG == CONFORM_ALIGN_2_60 && align_bytes == (size_t)1 << 60 && size_bytes == 1) return __libc_malloc(1);
    const int before = errno;
    void *block = __libc_memalign(align_bytes, size_bytes);
    if (BUG == CONFORM_ALIGNED_ERRNO && block == NULL && align_bytes == 64 && size_bytes % 64 == 0) errno = before;
    return block;
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    return memalign(align_bytes, size_bytes);
}

int posix_memalign(void **block, size_t align_bytes, size_t size_bytes)
{
    if (BUG == CONFORM_POSIX_POINTER) *block = NULL;
    if (align_bytes == 0 || align_bytes % sizeof(void *) != 0 || (align_bytes & (align_bytes - 1)) != 0) return EINVAL;
    const int before = errno;
    void *fresh =
        BUG == CONFORM_POSIX_0 && size_bytes == 0 ? __libc_malloc(0) : __libc_memalign(align_bytes, size_bytes);
    errno = before;
    if (fresh == NULL) return ENOMEM;
    *block = fresh;
    return 0;
}

void *valloc(size_t size_bytes)
{
    const int before = errno;
    void *block = __libc_valloc(size_bytes);
    if (BUG == CONFORM_VALLOC_ERRNO && block == NULL) errno = before;
    return block;
}

#if !CONFORM_WITHOUT_PVALLOC
void *pvalloc(size_t size_bytes)
{
    return BUG == CONFORM_PVALLOC_SHORT ? __libc_valloc(size_bytes) : __libc_pvalloc(size_bytes);
}
#endif

size_t malloc_usable_size(void *block)
{
    static size_t (*usable_size)(void *block);
    if (BUG == CONFORM_USABLE_NULL && block == NULL) abort();
    if (usable_size == NULL) *(void **)&usable_size = libc_symbol("malloc_usable_size");
    return usable_size(block);
}

int malloc_trim(size_t pad_bytes)
{
    static int (*trim)(size_t pad_bytes);
    if (trim == NULL) *(void **)&trim = libc_symbol("malloc_trim");
    return trim(pad_bytes);
}

int mallopt(int parameter, int value)
{
    static int (*set)(int parameter, int value);
    if (set == NULL) *(void **)&set = libc_symbol("mallopt");
    fast_size_0 = BUG == CONFORM_MALLOPT && parameter == M_MXFAST && value == 0;
    return set(parameter, value);
}
