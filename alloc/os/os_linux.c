/* os_linux.c: os.h on Linux. A reservation is a private PROT_NONE mapping. commit makes it writable: then the system counts it
 * as memory that it has promised, and may refuse (vm.overcommit_memory). With MAP_NORESERVE it would not count it, and so
 * give blocks that no machine can hold. */
#include "os/os.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/sync_point.h"
#include "os/call.h"
#include "os/process/clock.h"
#include "os/sanitizer.h"

/* The kernel's numbers for futex operations on a word that only this process uses. Spelled out, since a C library need
 * not ship the kernel's headers. */
enum { FUTEX_WAIT_HERE = 0 | 128, FUTEX_WAKE_HERE = 1 | 128 };

/* Likewise advice that is younger than the C library may be. */
enum { MADV_POPULATE_WRITE_HERE = 23, MADV_COLLAPSE_HERE = 25 };

static void *map(void *at, size_t size_bytes, int protection)
{
    intptr_t start = call_mmap(at, size_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS);
    return call_failed(start) ? NULL : (void *)start;
}

/* The system takes an address for a hint, and finds another place if that one is taken. MAP_FIXED_NOREPLACE would say the same in
 * one call, but a filter of Chromium's kind ends the process for a flag that libc's malloc does not use. */
static void *map_at(void *at, size_t size_bytes, int protection)
{
    void *start = map(at, size_bytes, protection);
    if (start != NULL && start != at) {
        call_munmap(start, size_bytes);
        start = NULL;
    }
    return start;
}

static bool is_aligned(const void *start, size_t align_bytes)
{
    return ((uintptr_t)start & (align_bytes - 1)) == 0;
}

/* Maps more, by the alignment, and cuts off both ends. Cutting may leave one mapping more than before. If the system refuses
 * that, an end that is only reserved stays, which costs address space and no memory. */
static char *map_wide(size_t size_bytes, size_t align_bytes, int protection)
{
    size_t wide_bytes;
    if (__builtin_add_overflow(size_bytes, align_bytes, &wide_bytes)) return NULL;
    char *wide = map(NULL, wide_bytes, protection);
    if (wide == NULL) return NULL;
    size_t before = (size_t)(-(uintptr_t)wide & (align_bytes - 1));
    size_t after = align_bytes - before; /* a page at least: `before` is less than align_bytes */
    bool is_cut = before == 0 || call_munmap(wide, before) == 0;
    is_cut = call_munmap(wide + before + size_bytes, after) == 0 && is_cut;
    if (is_cut || protection == PROT_NONE) return wide + before;
    call_munmap(wide, wide_bytes);
    return NULL;
}

/* The kernel places one mapping below the other, so a plain one is often aligned already, and the next aligned place below
 * it is often free. */
static void *map_aligned(size_t size_bytes, size_t align_bytes, int protection)
{
    void *start = map(NULL, size_bytes, protection);
    if (start == NULL || is_aligned(start, align_bytes)) return start;
    call_munmap(start, size_bytes);
    start = map((void *)((uintptr_t)start & -align_bytes), size_bytes, protection);
    if (start != NULL && is_aligned(start, align_bytes)) return start;
    if (start != NULL) call_munmap(start, size_bytes); /* NULL: a filter may refuse addresses of one's choice */
    /* First the whole is only reserved, so that what is cut off counts as no memory. */
    start = map_wide(size_bytes, align_bytes, PROT_NONE);
    if (start == NULL || protection == PROT_NONE || call_mprotect(start, size_bytes, protection) == 0) return start;
    call_munmap(start, size_bytes); /* a filter may refuse to change protection */
    return map_wide(size_bytes, align_bytes, protection);
}

static void *linux_reserve(void *at, size_t size_bytes, size_t align_bytes)
{
    return at != NULL ? map_at(at, size_bytes, PROT_NONE) : map_aligned(size_bytes, align_bytes, PROT_NONE);
}

static void *linux_map(void *at, size_t size_bytes, size_t align_bytes)
{
    const int protection = PROT_READ | PROT_WRITE;
    void *start = at != NULL ? map_at(at, size_bytes, protection) : map_aligned(size_bytes, align_bytes, protection);
    if (ASAN && start != NULL) sanitizer_open(start, size_bytes);
    return start;
}

static int linux_expose(void *start, size_t size_bytes)
{
    return -call_mprotect(start, size_bytes, PROT_READ);
}

/* This and the calls that give memory back remove its poison for AddressSanitizer: the runtime, in gcc 12 at least,
 * does not do so when other code maps the same addresses later. */
static int linux_commit(void *start, size_t size_bytes)
{
    if (ASAN) sanitizer_open(start, size_bytes);
    return -call_mprotect(start, size_bytes, PROT_READ | PROT_WRITE);
}

/* relaxed: it orders nothing. */
static _Atomic(bool) purges_by_advice;

void os_purge_by_advice(bool yes)
{
    atomic_store_explicit(&purges_by_advice, yes, memory_order_relaxed);
}

/* Maps fresh memory at the place of the old. Kernels before 6.12 unmap the old range before they ask whether there is
 * memory for the new one, which strict overcommit may refuse. A hole must not stay, since others would be mapped there:
 * touching what closes it ends the process. Where there is no hole, nothing closes it, and the old memory stays. */
static int map_again(void *start, size_t size_bytes, int protection)
{
    enum { TRIES = 100 };
    intptr_t mapped = -ENOMEM;
    for (int tries = 0; tries < TRIES; tries++) {
        mapped = call_mmap(start, size_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
        if (!call_failed(mapped)) return 0;
        if (mapped != -ENOMEM || map_at(start, size_bytes, PROT_NONE) == NULL) break;
    }
    return (int)-mapped;
}

static _Atomic(bool) has_purged;

void os_note_purged(void)
{
    atomic_store_explicit(&has_purged, true, memory_order_relaxed);
}

bool os_has_purged(void)
{
    return atomic_load_explicit(&has_purged, memory_order_relaxed);
}

/* Without room for a mapping more, or where a limit on address space or data is below what is in use, madvise still gives
 * memory back. protection: what the range has. */
static int give_back(void *start, size_t size_bytes, int protection)
{
    const bool by_advice = !OWN_CALLS || atomic_load_explicit(&purges_by_advice, memory_order_relaxed);
    const int error = by_advice ? ENOMEM : map_again(start, size_bytes, protection);
    return error == ENOMEM ? -call_madvise(start, size_bytes, MADV_DONTNEED) : error;
}

static int linux_purge(void *start, size_t size_bytes)
{
    if (VALIDATE) os_note_purged();
    return give_back(start, size_bytes, PROT_READ | PROT_WRITE);
}

/* Changes the protection first: if the system has no room for one mapping more, the old one stays. */
static int linux_seal(void *start, size_t size_bytes)
{
    if (VALIDATE) os_note_purged();
    int error = -call_mprotect(start, size_bytes, PROT_NONE);
    if (error == 0) give_back(start, size_bytes, PROT_NONE); /* locked pages keep theirs: none can touch it */
    return error;
}

static int linux_release(void *start, size_t size_bytes)
{
    if (ASAN) sanitizer_open(start, size_bytes); /* before another thread can map it */
    return -call_munmap(start, size_bytes);
}

static int linux_grow(void *start, size_t old_bytes, size_t new_bytes)
{
    intptr_t stays = call_mremap(start, old_bytes, new_bytes, 0, NULL);
    if (ASAN && !call_failed(stays)) sanitizer_open((char *)start + old_bytes, new_bytes - old_bytes);
    return call_failed(stays) ? (int)-stays : 0;
}

static int linux_move(void *start, size_t old_bytes, void *target, size_t new_bytes)
{
    if (ASAN) sanitizer_open(start, old_bytes);
    if (ASAN) sanitizer_open(target, new_bytes);
    intptr_t moved = call_mremap(start, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    return call_failed(moved) ? (int)-moved : 0;
}

int os_commit_fresh(void *start, size_t size_bytes)
{
    const int error = os->commit(start, size_bytes);
    if (error == 0 || !OWN_CALLS) return error;
    void *fresh = os->map(NULL, size_bytes, PAGE_BYTES);
    if (fresh == NULL) return error;
    if (os->move(fresh, size_bytes, start, size_bytes) == 0) return 0;
    os->release(fresh, size_bytes);
    os->reserve(start, size_bytes, PAGE_BYTES); /* a move may unmap its target before it fails: see map_again */
    return error;
}

static size_t linux_page_bytes(void)
{
#ifdef __x86_64__
    return 4096; /* the processor has no other */
#else
    return (size_t)sysconf(_SC_PAGESIZE); /* no system call: libc reads the auxiliary vector */
#endif
}

const struct os_ops os_linux_ops = {
    .reserve = linux_reserve,
    .map = linux_map,
    .expose = linux_expose,
    .commit = linux_commit,
    .purge = linux_purge,
    .seal = linux_seal,
    .release = linux_release,
    .grow = linux_grow,
    .move = linux_move,
    .page_bytes = linux_page_bytes,
};

const struct os_ops *os = &os_linux_ops;

uint64_t os_now_ms(void)
{
    if (VALIDATE && hak_clock_hook != NULL) return hak_clock_hook();
    struct timespec now;
    clock_read(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t os_address_space_limit_bytes(void)
{
    struct rlimit limit = {.rlim_cur = UINT64_MAX};
    static_assert(RLIM_INFINITY == UINT64_MAX, "no limit is the highest one");
    bool known = call_getrlimit(RLIMIT_AS, &limit) == 0;
    return known ? limit.rlim_cur : UINT64_MAX;
}

/* A sanitizer would keep books on the mapping, which may have terabytes; and an arena of the explorer's has no limit. */
bool os_has_space(size_t size_bytes)
{
    static _Atomic(bool) stays_mapped; /* the system takes nothing back: ask no more. relaxed: it orders nothing */
    if (!OWN_CALLS || atomic_load_explicit(&stays_mapped, memory_order_relaxed)) return true;
    void *start = map(NULL, size_bytes, PROT_NONE);
    if (start != NULL && call_munmap(start, size_bytes) != 0)
        atomic_store_explicit(&stays_mapped, true, memory_order_relaxed);
    return start != NULL;
}

#ifdef __GLIBC__
/* glibc's own name for getauxval: a program that defines getauxval does not stand before it. */
extern unsigned long __getauxval(unsigned long what); // NOLINT(bugprone-reserved-identifier)
#else
#define __getauxval getauxval // NOLINT(bugprone-reserved-identifier)
#endif

uintptr_t os_told(unsigned long what)
{
    int saved = errno;
    uintptr_t value = __getauxval(what);
    errno = saved;
    return value;
}

uintptr_t os_program_address(void)
{
    return os_told(AT_PHDR); /* the program's headers */
}

uintptr_t os_stack_address(void)
{
    return os_told(AT_RANDOM); /* some bytes above the first frame */
}

bool os_is_privileged(void)
{
    return os_told(AT_SECURE) != 0;
}

void os_wait(uint32_t *word, uint32_t value)
{
    call_futex(word, FUTEX_WAIT_HERE, value, NULL);
}

void os_wait_ms(uint32_t *word, uint32_t value, uint32_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    call_futex(word, FUTEX_WAIT_HERE, value, &time);
}

void os_wake_one(uint32_t *word)
{
    call_futex(word, FUTEX_WAKE_HERE, 1, NULL);
}

void os_advise_huge(void *start, size_t size_bytes)
{
    call_madvise(start, size_bytes, MADV_HUGEPAGE);
}

int os_collapse(void *start, size_t size_bytes)
{
    return -call_madvise(start, size_bytes, MADV_COLLAPSE_HERE);
}

int os_populate(void *start, size_t size_bytes)
{
    int error = -call_madvise(start, size_bytes, MADV_POPULATE_WRITE_HERE);
    if (error != EINVAL) return error;
    /* Linux before 5.14. Nobody else uses the range yet. */
    for (size_t at = 0; at < size_bytes; at += os_page_bytes()) {
        volatile char *byte = (char *)start + at;
        *byte = *byte;
    }
    return 0;
}

size_t os_resident_bytes(void *start, size_t size_bytes)
{
    unsigned char resident[SUPERSLAB_BYTES / 4096] = {0};
    size_t page_bytes = os_page_bytes(), bytes = 0;
    if (call_mincore(start, size_bytes, resident) != 0) return 0;
    for (size_t i = 0; i < size_bytes / page_bytes; i++) bytes += (resident[i] & 1) != 0 ? page_bytes : 0;
    return bytes;
}

static const uint64_t write_signals = 1ull << (SIGXFSZ - 1) | 1ull << (SIGPIPE - 1);

struct os_write_signals os_write_signals_hold(void)
{
    struct os_write_signals held = {.waited = write_signals}; /* if that cannot be known, they are left alone */
    uint64_t waiting = 0;
    held.is_held = call_rt_sigprocmask(SIG_BLOCK, &write_signals, &held.mask) == 0;
    if (call_rt_sigpending(&waiting) == 0) held.waited = waiting & write_signals;
    return held;
}

void os_write_signals_release(const struct os_write_signals *held)
{
    const struct timespec at_once = {.tv_sec = 0};
    const uint64_t sent = write_signals & ~held->waited;
    /* A write that fails is the last, so one signal came at most. */
    if (held->is_held && sent != 0) call_rt_sigtimedwait(&sent, &at_once);
    if (held->is_held) call_rt_sigprocmask(SIG_SETMASK, &held->mask, NULL);
}

/* files: of its caller; malloc writes one line to standard error when it ends the process */
int os_write_all(int fd, const void *bytes, size_t size_bytes)
{
    const char *at = bytes, *end = at + size_bytes;
    int error = 0;
    const struct os_write_signals held = os_write_signals_hold();
    while (at < end && error == 0) {
        intptr_t count = call_write(fd, at, (size_t)(end - at));
        if (count > 0) at += count;
        else if (count != -EINTR) error = count == 0 ? EIO : (int)-count;
    }
    os_write_signals_release(&held);
    return error;
}

void os_write_error(const char *text, size_t size_bytes)
{
    os_write_all(STDERR_FILENO, text, size_bytes); /* there is nobody to tell of an error */
}
