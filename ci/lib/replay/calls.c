/* calls.c: libreplay-calls.so, preloaded before the malloc of a program that ci/replay runs again. Writes down each
 * call of malloc, free and their kin, and who made it, in the file that HAKMEM_REPLAY_CALLS names, which is mapped: no
 * call of its own goes to the malloc, so that the blocks lie as they did. Any thread.
 *
 * The file: a number of calls, then CALLS_MAX calls as a ring. A free is written before it is done, an allocation
 * after. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLS_MAX = 1 << 20 };

enum operation {
    ALLOCATED = 1, /* block, its size, and its usable size */
    FREED = 2,     /* block */
};

struct call {
    uint64_t operation, thread, block, size_bytes, usable_bytes, caller;
};

struct calls {
    _Atomic(uint64_t) count;
    uint64_t unused[5]; /* one call long, with the count */
    struct call ring[CALLS_MAX];
};

static struct calls *calls;
static _Atomic(int) state; /* 0: not opened, 1: opened, or in vain */

/* Read by the debugger when a watchpoint is hit: calls so far. */
extern volatile uint64_t hakmem_replay_count;
volatile uint64_t hakmem_replay_count;

static void calls_open(void)
{
    if (atomic_exchange(&state, 1) != 0) return;
    const char *path = getenv("HAKMEM_REPLAY_CALLS");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, sizeof(struct calls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED) calls = map;
}

static void *next(const char *name)
{
    calls_open();
    return dlsym(RTLD_NEXT, name);
}

/* A pointer to the next definition of a function; looked up at its first call, by each thread that is early. */
#define NEXT(type, name) (*(__extension__(type *)find((void **)&next_##name, #name)))
#define DECLARE(name) static void *next_##name

static void **find(void **place, const char *name)
{
    if (__atomic_load_n(place, __ATOMIC_RELAXED) == NULL) __atomic_store_n(place, next(name), __ATOMIC_RELAXED);
    return place;
}

static void put(enum operation operation, void *block, size_t size_bytes, size_t usable_bytes, void *caller)
{
    if (calls == NULL || block == NULL) return;
    uint64_t number = atomic_fetch_add_explicit(&calls->count, 1, memory_order_relaxed);
    struct call call = {.operation = operation, .thread = (uint64_t)syscall(SYS_gettid), .block = (uintptr_t)block,
                        .size_bytes = size_bytes, .usable_bytes = usable_bytes, .caller = (uintptr_t)caller};
    calls->ring[number % CALLS_MAX] = call;
    hakmem_replay_count = number + 1;
}

typedef void *(*of_size)(size_t);
typedef void *(*of_two)(size_t, size_t);
typedef void *(*of_block)(void *, size_t);
typedef void (*of_pointer)(void *);
typedef void (*of_pointer_and_size)(void *, size_t);
typedef void *(*of_array)(void *, size_t, size_t);
typedef size_t (*measure)(void *);
typedef int (*of_place)(void **, size_t, size_t);

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

static void *put_new(void *block, size_t size_bytes, void *caller)
{
    if (calls != NULL && block != NULL)
        put(ALLOCATED, block, size_bytes, NEXT(measure, malloc_usable_size)(block), caller);
    return block;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size_bytes)
{
    return put_new(NEXT(of_size, malloc)(size_bytes), size_bytes, CALLER);
}

void *calloc(size_t count, size_t size_bytes)
{
    return put_new(NEXT(of_two, calloc)(count, size_bytes), count * size_bytes, CALLER);
}

/* The block before goes into the log as freed, and comes back where realloc fails and leaves it. */
static void *put_moved(void *before, void *moved, size_t size_bytes, void *caller)
{
    if (moved == NULL && size_bytes > 0) {
        put_new(before, size_bytes, caller);
        return NULL;
    }
    return put_new(moved, size_bytes, caller);
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
    put(FREED, block, 0, 0, CALLER);
    NEXT(of_pointer, free)(block);
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
    put(FREED, block, 0, 0, CALLER);
    NEXT(of_pointer_and_size, free_sized)(block, size_bytes);
}

int posix_memalign(void **place, size_t align_bytes, size_t size_bytes)
{
    int error = NEXT(of_place, posix_memalign)(place, align_bytes, size_bytes);
    if (error == 0) put_new(*place, size_bytes, CALLER);
    return error;
}

/* The operators of C++, by the names that the linker knows: new, new[], delete, delete[], and with sizes. */
#define NEW(name)                                                       \
    void *name(size_t size_bytes);                                      \
    void *name(size_t size_bytes)                                       \
    {                                                                   \
        return put_new(NEXT(of_size, name)(size_bytes), size_bytes, CALLER); \
    }
#define DELETE(name)                       \
    void name(void *block);                \
    void name(void *block)                 \
    {                                      \
        put(FREED, block, 0, 0, CALLER);   \
        NEXT(of_pointer, name)(block);     \
    }
#define DELETE_SIZED(name)                               \
    void name(void *block, size_t size_bytes);           \
    void name(void *block, size_t size_bytes)            \
    {                                                    \
        put(FREED, block, 0, 0, CALLER);                 \
        NEXT(of_pointer_and_size, name)(block, size_bytes); \
    }
NEW(_Znwm)
NEW(_Znam)
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE_SIZED(_ZdlPvm)
DELETE_SIZED(_ZdaPvm)
