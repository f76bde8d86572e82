/* The recorder of `hakmem-stress capture`, preloaded before the malloc of the program. It passes each call on to the next
 * library that has it, and writes it to the log of the process (capture_log.h).
 *
 * It takes no lock and no memory. A thread takes a seat at its first call and gives it back at its end. All of its state
 * is in a page that the system zeroes in the child of a fork, so that the child notices and begins a log of its own.
 * Stretches of the log that were written leave the resident set. Any thread; keeps errno. */
#define _GNU_SOURCE
#include "capture/capture_log.h"
#include "capture/recorder_large.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    STRETCH_RECORDS = 1 << 16,
    STRETCHES_BEHIND = 64,
    SEAT_WORDS = CAPTURE_SEATS / 64,
    PAGE_BYTES = 4096,
    DESTRUCTOR_ROUNDS = 4
};
static const uint64_t records_max = 1ULL << 31, records_min = 1ULL << 20;

struct record {
    _Atomic uint64_t what, size_bytes;
};

struct log {
    uint64_t magic;
    uint32_t version, pid;
    _Atomic uint64_t room;
    _Atomic uint64_t count;
    char program[CAPTURE_PROGRAM_BYTES];
    char rest[CAPTURE_HEAD_BYTES - 32 - CAPTURE_PROGRAM_BYTES];
    struct record records[];
};
_Static_assert(offsetof(struct log, records) == CAPTURE_HEAD_BYTES, "as capture_log.h says");
_Static_assert(offsetof(struct log, program) == offsetof(struct capture_head, program), "as capture_log.h says");

/* Zeroed in the child of a fork. */
struct state {
    struct log *log;
    bool off;
    _Atomic uint64_t seats[SEAT_WORDS];
};

static struct state before_start;
static struct state *state = &before_start;
static struct log *last_log; /* survives a fork, to be unmapped by the child */
static size_t last_log_bytes;
static char directory[3072];
static uint64_t record_limit;
static pthread_key_t end_key;
static bool has_end_key;

/* initial-exec: an access never allocates. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned own_seat; /* plus 1; 0: none yet */

/* The next library's calls. */
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void (*free)(void *);
    int (*malloc_trim)(size_t);
} next;

/* Serves what dlsym asks for while it looks for the calls above. */
static _Alignas(16) char early[16384];
static size_t early_used;
static bool resolving;

static void *early_take(size_t size_bytes)
{
    const size_t bytes = (size_bytes + 31) & ~(size_t)15;
    if (size_bytes > sizeof early || bytes > sizeof early - early_used) return NULL;
    char *start = early + early_used + 16;
    early_used += bytes + 16 > sizeof early - early_used ? sizeof early - early_used : bytes;
    return start;
}

static bool is_early(const void *start)
{
    return (const char *)start >= early && (const char *)start < early + sizeof early;
}

static void *find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void resolve(void)
{
    resolving = true;
    next.malloc = (void *(*)(size_t))find("malloc");
    next.calloc = (void *(*)(size_t, size_t))find("calloc");
    next.realloc = (void *(*)(void *, size_t))find("realloc");
    next.aligned_alloc = (void *(*)(size_t, size_t))find("aligned_alloc");
    next.posix_memalign = (int (*)(void **, size_t, size_t))find("posix_memalign");
    next.memalign = (void *(*)(size_t, size_t))find("memalign");
    next.malloc_trim = (int (*)(size_t))find("malloc_trim");
    next.free = (void (*)(void *))find("free"); /* last: ready() looks at it */
    resolving = false;
}

/* False: dlsym is at work, so the early memory serves. */
static inline bool ready(void)
{
    if (__builtin_expect(next.free != NULL, 1)) return true;
    if (resolving) return false;
    resolve();
    return true;
}

static void add_number(char *text, uint64_t number)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    strcat(text, digits + at);
}

static int log_create(void)
{
    for (uint64_t image = 1; image < 1000; ++image) {
        char path[sizeof directory + 64];
        strcpy(path, directory);
        strcat(path, "/");
        add_number(path, (uint64_t)getpid());
        if (image > 1) {
            strcat(path, "-"); /* the process called exec */
            add_number(path, image);
        }
        const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* Maps as much as the limits of the process allow: the file is sparse. */
static struct log *log_map(int fd, uint64_t *room)
{
    struct rlimit file_limit;
    if (getrlimit(RLIMIT_FSIZE, &file_limit) != 0) file_limit.rlim_cur = RLIM_INFINITY;
    for (uint64_t records = records_max; records >= records_min; records /= 2) {
        const size_t bytes = CAPTURE_HEAD_BYTES + records * sizeof(struct record);
        if (bytes > file_limit.rlim_cur || ftruncate(fd, (off_t)bytes) != 0) continue;
        void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (start == MAP_FAILED) continue;
        madvise(start, bytes, MADV_DONTDUMP);
        last_log = start;
        last_log_bytes = bytes;
        *room = record_limit < records ? record_limit : records;
        return start;
    }
    return NULL;
}

static bool directory_find(void)
{
    if (directory[0] != '\0') return true;
    if (environ == NULL) return false; /* libc has not started: these calls are not recorded */
    const char *named = getenv(CAPTURE_DIRECTORY), *limit = getenv(CAPTURE_RECORDS_MAX);
    record_limit = limit != NULL ? strtoull(limit, NULL, 10) : UINT64_MAX;
    if (named != NULL && strlen(named) < sizeof directory) strcpy(directory, named);
    else before_start.off = true;
    return directory[0] != '\0';
}

/* For threads: gives the seat back in the last round of destructors, since those of others allocate and free too. */
static void thread_ends(void *round);

/* The first call of the process, or of the child of a fork, which has one thread. Returns its log; NULL: none. */
static struct log *begin(void)
{
    if (state->off || !directory_find()) return NULL;
    const int error = errno;
    if (state == &before_start) {
        void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED || madvise(page, PAGE_BYTES, MADV_WIPEONFORK) != 0) {
            before_start.off = true;
            errno = error;
            return NULL;
        }
        state = page;
        has_end_key = pthread_key_create(&end_key, thread_ends) == 0;
    }
    if (last_log != NULL) munmap(last_log, last_log_bytes); /* the parent's */
    last_log = NULL;
    own_seat = 0;
    uint64_t room = 0;
    const int fd = log_create();
    struct log *log = fd < 0 ? NULL : log_map(fd, &room);
    if (fd >= 0) close(fd);
    if (log != NULL) {
        const ssize_t length = readlink("/proc/self/exe", log->program, CAPTURE_PROGRAM_BYTES - 1);
        log->program[length < 0 ? 0 : length] = '\0';
        log->pid = (uint32_t)getpid();
        log->version = CAPTURE_VERSION;
        atomic_store_explicit(&log->room, room, memory_order_relaxed);
        log->magic = CAPTURE_MAGIC;
    }
    state->off = log == NULL;
    state->log = log;
    errno = error;
    return log;
}

/* The lowest free seat, so that there are no more seats than threads at one time. Beyond the last, threads share. */
static unsigned seat_take(void)
{
    for (unsigned word = 0; word < SEAT_WORDS; ++word) {
        uint64_t taken = atomic_load_explicit(&state->seats[word], memory_order_relaxed);
        while (taken != UINT64_MAX) {
            const unsigned bit = (unsigned)__builtin_ctzll(~taken);
            /* relaxed: the log orders what the seat's threads do */
            if (atomic_compare_exchange_weak_explicit(&state->seats[word], &taken, taken | 1ULL << bit,
                                                      memory_order_relaxed, memory_order_relaxed))
                return word * 64 + bit;
        }
    }
    return (unsigned)syscall(SYS_gettid) % CAPTURE_SEATS;
}

static __attribute__((noinline)) unsigned seat_begin(void)
{
    own_seat = seat_take() + 1;
    if (has_end_key) pthread_setspecific(end_key, (void *)1);
    return own_seat;
}

/* What was written leaves the resident set; the file keeps it. A thread that was interrupted between its index and its
 * record faults an old page in again, so each call takes the stretches before along. */
static __attribute__((noinline)) void leave_behind(struct log *log, uint64_t index)
{
    const uint64_t far = (uint64_t)STRETCH_RECORDS * STRETCHES_BEHIND;
    const uint64_t from = index > far ? index - far : 0, to = index > STRETCH_RECORDS ? index - STRETCH_RECORDS : 0;
    if (from == to) return;
    const int error = errno;
    madvise(&log->records[from], (to - from) * sizeof(struct record), MADV_DONTNEED);
    errno = error;
}

static inline void put(unsigned kind, unsigned align_log2, const void *start, uint64_t size_bytes)
{
    struct log *log = state->log;
    if (__builtin_expect(log == NULL, 0) && (log = begin()) == NULL) return;
    unsigned seat = own_seat;
    if (__builtin_expect(seat == 0, 0)) seat = seat_begin();
    /* relaxed: calls on one address are ordered by the allocator itself, and this counter agrees with that order. */
    const uint64_t index = atomic_fetch_add_explicit(&log->count, 1, memory_order_relaxed);
    if (index >= atomic_load_explicit(&log->room, memory_order_relaxed)) return;
    struct record *record = &log->records[index];
    atomic_store_explicit(&record->size_bytes, size_bytes, memory_order_relaxed);
    /* release: who reads `what` also reads its size. Pairs with the reader's view of a process that has ended. */
    atomic_store_explicit(&record->what, capture_what(kind, align_log2, seat - 1, (uint64_t)(uintptr_t)start),
                          memory_order_release);
    if (__builtin_expect(index % STRETCH_RECORDS == 0, 0)) leave_behind(log, index);
}

static void thread_ends(void *round)
{
    const uintptr_t rounds = (uintptr_t)round;
    if (rounds < DESTRUCTOR_ROUNDS) {
        pthread_setspecific(end_key, (void *)(rounds + 1));
        return;
    }
    if (own_seat == 0) return;
    put(CAPTURE_THREAD_END, 0, NULL, 0);
    const unsigned seat = own_seat - 1; /* what the thread still does is recorded on it */
    atomic_fetch_and_explicit(&state->seats[seat / 64], ~(1ULL << seat % 64), memory_order_relaxed);
}

static void forked(void)
{
    put(CAPTURE_FORK, 0, NULL, 0);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, forked, NULL);
}

static inline void *allocated(unsigned kind, unsigned align_log2, void *start, uint64_t size_bytes)
{
    if (__builtin_expect(start != NULL, 1)) {
        put(kind, align_log2, start, size_bytes);
        if (__builtin_expect(size_bytes >= LARGE_BYTES, 0)) large_note(start, size_bytes);
    }
    return start;
}

static void tell_resident(const void *start, size_t resident)
{
    put(CAPTURE_TOUCHED, 0, start, resident);
}

__attribute__((destructor)) static void tell_all_resident(void)
{
    large_each(tell_resident);
}

/* The block is about to go. Returns its size if it was noted. */
static inline size_t goes(const void *start)
{
    size_t size_bytes, resident = large_forget(start, &size_bytes);
    if (__builtin_expect(resident != SIZE_MAX, 0)) tell_resident(start, resident);
    return size_bytes;
}

void *malloc(size_t size_bytes)
{
    if (!ready()) return early_take(size_bytes);
    return allocated(CAPTURE_MALLOC, 0, next.malloc(size_bytes), size_bytes);
}

void *calloc(size_t count, size_t size_bytes)
{
    if (!ready()) return early_take(count * size_bytes);
    return allocated(CAPTURE_CALLOC, 0, next.calloc(count, size_bytes), (uint64_t)count * size_bytes);
}

void free(void *start)
{
    if (start == NULL || is_early(start) || !ready()) return;
    goes(start);
    put(CAPTURE_FREE, 0, start, 0);
    next.free(start);
}

void *realloc(void *start, size_t size_bytes)
{
    if (start == NULL) return malloc(size_bytes);
    if (is_early(start) || !ready()) {
        const size_t room = (size_t)(early + sizeof early - (char *)start);
        void *moved = malloc(size_bytes);
        return moved == NULL ? NULL : memcpy(moved, start, size_bytes < room ? size_bytes : room);
    }
    const size_t old_bytes = goes(start);
    put(CAPTURE_REALLOC_BEGIN, 0, start, size_bytes);
    void *moved = next.realloc(start, size_bytes);
    put(CAPTURE_REALLOC_END, 0, moved, size_bytes);
    if (moved != NULL ? size_bytes >= LARGE_BYTES : size_bytes != 0 && old_bytes != 0) /* refused, it stays */
        large_note(moved != NULL ? moved : start, moved != NULL ? size_bytes : old_bytes);
    return moved;
}

void *reallocarray(void *start, size_t count, size_t size_bytes)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, size_bytes, &bytes)) return realloc(start, bytes);
    errno = ENOMEM;
    return NULL;
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    if (!ready()) return NULL;
    return allocated(CAPTURE_ALIGNED_ALLOC, capture_align_log2(align_bytes),
                     next.aligned_alloc(align_bytes, size_bytes), size_bytes);
}

void *memalign(size_t align_bytes, size_t size_bytes)
{
    if (!ready()) return NULL;
    return allocated(CAPTURE_MEMALIGN, capture_align_log2(align_bytes), next.memalign(align_bytes, size_bytes),
                     size_bytes);
}

int posix_memalign(void **out, size_t align_bytes, size_t size_bytes)
{
    if (!ready()) return ENOMEM;
    const int error = next.posix_memalign(out, align_bytes, size_bytes);
    if (error == 0) allocated(CAPTURE_POSIX_MEMALIGN, capture_align_log2(align_bytes), *out, size_bytes);
    return error;
}

int malloc_trim(size_t keep_bytes)
{
    if (!ready() || next.malloc_trim == NULL) return 0;
    put(CAPTURE_TRIM, 0, NULL, 0);
    return next.malloc_trim(keep_bytes);
}
