/* calls.c: libreplay-calls.so, preloaded before the malloc of a program that ci/replay runs again. Logs each call of
 * malloc, free and related functions, with its caller, in the mapped file that HAKMEM_REPLAY_CALLS names. The library
 * itself never calls the malloc, so that blocks get the same addresses as before. Any thread.
 *
 * The file: a number of calls, then CALLS_MAX calls as a ring. A free is logged before it is done, an allocation after.
 * HAKMEM_REPLAY_FILL=N fills the block of call N (from 1) with bytes of 0xd1 before the program gets it.
 * HAKMEM_REPLAY_STACKS=1 also keeps the stack of each free.
 * HAKMEM_REPLAY_KEEP=N,N,... skips the frees with these numbers. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

enum { CALLS_MAX = 1 << 20 };

enum operation {
    ALLOCATED = 1, /* block, its size, and its usable size */
    FREED = 2,     /* block */
    ALLOCATED_ZEROED = 3,
};

struct call {
    uint64_t operation, thread, block, size_bytes, usable_bytes, caller;
};

enum { DEPTH_MAX = 8 };

struct calls {
    _Atomic(uint64_t) count;
    uint64_t unused[5]; /* the head, with the count, is as large as one call */
    struct call ring[CALLS_MAX];
    uint64_t stacks[CALLS_MAX][DEPTH_MAX]; /* of the frees: return addresses, innermost first */
};

enum { FILLED = 0xd1, KEPT_MAX = 64 };

static struct calls *calls;
static uint64_t fill_number; /* number of the call whose block is filled before the program gets it; 0: none */
static uint64_t kept[KEPT_MAX]; /* numbers of the calls of free that are skipped, ended by a 0 */
static bool with_stacks;
static _Atomic(int) state; /* 0: not opened; 1: opened, or could not be */

/* Read by the debugger when a watchpoint is hit: the number of calls so far, and the address of the log. */
extern volatile uint64_t hakmem_replay_count, hakmem_replay_log;
volatile uint64_t hakmem_replay_count, hakmem_replay_log;

static void calls_open(void)
{
    if (atomic_exchange(&state, 1) != 0) return;
    const char *path = getenv("HAKMEM_REPLAY_CALLS");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    const char *fill = getenv("HAKMEM_REPLAY_FILL");
    if (fill != NULL) fill_number = strtoull(fill, NULL, 10);
    char *keep = getenv("HAKMEM_REPLAY_KEEP");
    for (int i = 0; keep != NULL && *keep != '\0' && i < KEPT_MAX - 1; i++) {
        kept[i] = strtoull(keep, &keep, 10);
        if (*keep == ',') keep++;
    }
    with_stacks = getenv("HAKMEM_REPLAY_STACKS") != NULL;
    void *map = mmap(NULL, sizeof(struct calls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return;
    calls = map;
    hakmem_replay_log = (uintptr_t)map;
}

static void *next(const char *name)
{
    calls_open();
    return dlsym(RTLD_NEXT, name);
}

/* A pointer to the next definition of a function. Looked up at its first call, perhaps by several threads at the same
 * time. */
#define NEXT(type, name) (*(__extension__(type *) find((void **)&next_##name, #name)))
#define DECLARE(name) static void *next_##name

static void **find(void **place, const char *name)
{
    if (__atomic_load_n(place, __ATOMIC_RELAXED) == NULL) __atomic_store_n(place, next(name), __ATOMIC_RELAXED);
    return place;
}

struct walk {
    uint64_t *row;
    int depth;
};

static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *context, void *data)
{
    struct walk *walk = data;
    walk->row[walk->depth++] = _Unwind_GetIP(context);
    return walk->depth < DEPTH_MAX ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/* The number of the call, from 1; 0: it was not logged. */
static uint64_t put(enum operation operation, void *block, size_t size_bytes, size_t usable_bytes, void *caller)
{
    if (calls == NULL || block == NULL) return 0;
    uint64_t number = atomic_fetch_add_explicit(&calls->count, 1, memory_order_relaxed);
    struct call call = {.operation = operation | (uint64_t)getpid() << 32,
                        .thread = (uint64_t)syscall(SYS_gettid),
                        .block = (uintptr_t)block,
                        .size_bytes = size_bytes,
                        .usable_bytes = usable_bytes,
                        .caller = (uintptr_t)caller};
    calls->ring[number % CALLS_MAX] = call;
    if (with_stacks && operation == FREED) {
        struct walk walk = {.row = calls->stacks[number % CALLS_MAX]};
        _Unwind_Backtrace(walk_frame, &walk);
    }
    hakmem_replay_count = number + 1;
    return number + 1;
}

typedef void *(*of_size)(size_t);
typedef void *(*of_two)(size_t, size_t);
typedef void *(*of_block)(void *, size_t);
typedef void (*of_pointer)(void *);
typedef void (*of_pointer_and_size)(void *, size_t);
typedef void *(*of_array)(void *, size_t, size_t);
typedef size_t (*measure)(void *);
typedef int (*of_place)(void **, size_t, size_t);
typedef void *(*of_size_and_tag)(size_t, void *);
typedef void *(*of_two_and_tag)(size_t, size_t, void *);
typedef void (*of_two_pointers)(void *, void *);
typedef void (*of_pointer_and_two)(void *, size_t, size_t);
typedef void (*of_pointer_size_and_tag)(void *, size_t, void *);

DECLARE(malloc);
DECLARE(calloc);
DECLARE(realloc);
DECLARE(free);
DECLARE(malloc_usable_size);
DECLARE(memalign);
DECLARE(aligned_alloc);
DECLARE(posix_memalign);
DECLARE(reallocarray);
DECLARE(valloc);
DECLARE(pvalloc);
DECLARE(free_sized);
DECLARE(_Znwm);
DECLARE(_Znam);
DECLARE(_ZdlPv);
DECLARE(_ZdaPv);
DECLARE(_ZdlPvm);
DECLARE(_ZdaPvm);
DECLARE(_ZnwmRKSt9nothrow_t);
DECLARE(_ZnamRKSt9nothrow_t);
DECLARE(_ZnwmSt11align_val_t);
DECLARE(_ZnamSt11align_val_t);
DECLARE(_ZnwmSt11align_val_tRKSt9nothrow_t);
DECLARE(_ZnamSt11align_val_tRKSt9nothrow_t);
DECLARE(_ZdlPvSt11align_val_t);
DECLARE(_ZdaPvSt11align_val_t);
DECLARE(_ZdlPvRKSt9nothrow_t);
DECLARE(_ZdaPvRKSt9nothrow_t);
DECLARE(_ZdlPvmSt11align_val_t);
DECLARE(_ZdaPvmSt11align_val_t);
DECLARE(_ZdlPvSt11align_val_tRKSt9nothrow_t);
DECLARE(_ZdaPvSt11align_val_tRKSt9nothrow_t);
DECLARE(free_aligned_sized);

/* Logs a free. False: it must be skipped. */
static bool put_free(void *block, void *caller)
{
    uint64_t number = put(FREED, block, 0, 0, caller);
    for (int i = 0; kept[i] != 0; i++)
        if (kept[i] == number) return false;
    return true;
}

static uint64_t put_block(enum operation operation, void *block, size_t size_bytes, void *caller)
{
    if (calls == NULL || block == NULL) return 0;
    return put(operation, block, size_bytes, NEXT(measure, malloc_usable_size)(block), caller);
}

static void *put_new(void *block, size_t size_bytes, void *caller)
{
    uint64_t number = put_block(ALLOCATED, block, size_bytes, caller);
    /* A field that the program never writes shows the filling; a field that it writes does not. */
    if (number != 0 && number == fill_number) memset(block, FILLED, size_bytes);
    return block;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size_bytes)
{
    return put_new(NEXT(of_size, malloc)(size_bytes), size_bytes, CALLER);
}

void *calloc(size_t count, size_t size_bytes)
{
    void *block = NEXT(of_two, calloc)(count, size_bytes);
    put_block(ALLOCATED_ZEROED, block, count * size_bytes, CALLER);
    return block;
}

/* Logs the old block as freed. If realloc fails and leaves the block in place, logs it as allocated again. */
static void *put_moved(void *before, void *moved, size_t size_bytes, void *caller)
{
    bool failed = moved == NULL && size_bytes > 0;
    put_block(ALLOCATED, failed ? before : moved, size_bytes, caller);
    return moved;
}

void *realloc(void *block, size_t size_bytes)
{
    put(FREED, block, 0, 0, CALLER);
    return put_moved(block, NEXT(of_block, realloc)(block, size_bytes), size_bytes, CALLER);
}

void *reallocarray(void *block, size_t count, size_t size_bytes)
{
    put(FREED, block, 0, 0, CALLER);
    return put_moved(block, NEXT(of_array, reallocarray)(block, count, size_bytes), count * size_bytes, CALLER);
}

void free(void *block)
{
    if (put_free(block, CALLER)) NEXT(of_pointer, free)(block);
}

void *memalign(size_t align_bytes, size_t size_bytes)
{
    return put_new(NEXT(of_two, memalign)(align_bytes, size_bytes), size_bytes, CALLER);
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    return put_new(NEXT(of_two, aligned_alloc)(align_bytes, size_bytes), size_bytes, CALLER);
}

void *valloc(size_t size_bytes)
{
    return put_new(NEXT(of_size, valloc)(size_bytes), size_bytes, CALLER);
}

void *pvalloc(size_t size_bytes)
{
    return put_new(NEXT(of_size, pvalloc)(size_bytes), size_bytes, CALLER);
}

void free_sized(void *block, size_t size_bytes);
void free_sized(void *block, size_t size_bytes)
{
    if (put_free(block, CALLER)) NEXT(of_pointer_and_size, free_sized)(block, size_bytes);
}

int posix_memalign(void **place, size_t align_bytes, size_t size_bytes)
{
    int error = NEXT(of_place, posix_memalign)(place, align_bytes, size_bytes);
    if (error == 0) put_new(*place, size_bytes, CALLER);
    return error;
}

/* The operators of C++ by their linker names: new, new[], delete, delete[], with sizes, alignments and std::nothrow. */
#define NEW(name)                                                            \
    void *name(size_t size_bytes);                                           \
    void *name(size_t size_bytes)                                            \
    {                                                                        \
        return put_new(NEXT(of_size, name)(size_bytes), size_bytes, CALLER); \
    }
#define DELETE(name)                                                \
    void name(void *block);                                         \
    void name(void *block)                                          \
    {                                                               \
        if (put_free(block, CALLER)) NEXT(of_pointer, name)(block); \
    }
#define DELETE_SIZED(name)                                                               \
    void name(void *block, size_t size_bytes);                                           \
    void name(void *block, size_t size_bytes)                                            \
    {                                                                                    \
        if (put_free(block, CALLER)) NEXT(of_pointer_and_size, name)(block, size_bytes); \
    }
/* The nothrow tag is passed as a reference; std::align_val_t is passed as a number of bytes. */
#define NEW_NOTHROW(name)                                                                 \
    void *name(size_t size_bytes, void *tag);                                             \
    void *name(size_t size_bytes, void *tag)                                              \
    {                                                                                     \
        return put_new(NEXT(of_size_and_tag, name)(size_bytes, tag), size_bytes, CALLER); \
    }
#define NEW_ALIGNED(name)                                                                \
    void *name(size_t size_bytes, size_t align_bytes);                                   \
    void *name(size_t size_bytes, size_t align_bytes)                                    \
    {                                                                                    \
        return put_new(NEXT(of_two, name)(size_bytes, align_bytes), size_bytes, CALLER); \
    }
#define NEW_ALIGNED_NOTHROW(name)                                                                     \
    void *name(size_t size_bytes, size_t align_bytes, void *tag);                                     \
    void *name(size_t size_bytes, size_t align_bytes, void *tag)                                      \
    {                                                                                                 \
        return put_new(NEXT(of_two_and_tag, name)(size_bytes, align_bytes, tag), size_bytes, CALLER); \
    }
#define DELETE_NOTHROW(name)                                                  \
    void name(void *block, void *tag);                                        \
    void name(void *block, void *tag)                                         \
    {                                                                         \
        if (put_free(block, CALLER)) NEXT(of_two_pointers, name)(block, tag); \
    }
#define DELETE_SIZED_ALIGNED(name)                                                                   \
    void name(void *block, size_t size_bytes, size_t align_bytes);                                   \
    void name(void *block, size_t size_bytes, size_t align_bytes)                                    \
    {                                                                                                \
        if (put_free(block, CALLER)) NEXT(of_pointer_and_two, name)(block, size_bytes, align_bytes); \
    }
#define DELETE_ALIGNED_NOTHROW(name)                                                               \
    void name(void *block, size_t align_bytes, void *tag);                                         \
    void name(void *block, size_t align_bytes, void *tag)                                          \
    {                                                                                              \
        if (put_free(block, CALLER)) NEXT(of_pointer_size_and_tag, name)(block, align_bytes, tag); \
    }
NEW(_Znwm)
NEW(_Znam)
NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
NEW_NOTHROW(_ZnamRKSt9nothrow_t)
NEW_ALIGNED(_ZnwmSt11align_val_t)
NEW_ALIGNED(_ZnamSt11align_val_t)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE_SIZED(_ZdlPvm)
DELETE_SIZED(_ZdaPvm)
DELETE_SIZED(_ZdlPvSt11align_val_t)
DELETE_SIZED(_ZdaPvSt11align_val_t)
DELETE_NOTHROW(_ZdlPvRKSt9nothrow_t)
DELETE_NOTHROW(_ZdaPvRKSt9nothrow_t)
DELETE_SIZED_ALIGNED(_ZdlPvmSt11align_val_t)
DELETE_SIZED_ALIGNED(_ZdaPvmSt11align_val_t)
DELETE_ALIGNED_NOTHROW(_ZdlPvSt11align_val_tRKSt9nothrow_t)
DELETE_ALIGNED_NOTHROW(_ZdaPvSt11align_val_tRKSt9nothrow_t)
DELETE_SIZED_ALIGNED(free_aligned_sized)
