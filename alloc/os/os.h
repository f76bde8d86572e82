/* os.h: everything that the allocator asks of the system, as a written contract and a table of calls.
 *
 * Only tests replace the table, before threads start (os_fault.c fails its nth call, os_pages.c has larger pages).
 * Ranges are whole pages of the system unless a line says otherwise. Calls that can fail return 0 or an errno value;
 * every call keeps errno. Any thread may call; all may be slow. Nothing here calls upward, takes a lock of the
 * allocator, or allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

struct os_ops {
    /* Reserves address space of size_bytes at a multiple of align_bytes (a power of two, at least PAGE_BYTES). It must
     * not be touched before commit. With at != NULL: exactly there, unless something is mapped there. Returns NULL on
     * failure. */
    void *(*reserve)(void *at, size_t size_bytes, size_t align_bytes);

    /* As reserve and commit, in one step. */
    void *(*map)(void *at, size_t size_bytes, size_t align_bytes);

    /* Makes reserved memory readable but not writable; it reads as zero. It costs no memory and counts against no limit
     * but that of address space. */
    int (*expose)(void *start, size_t size_bytes);

    /* Makes reserved or exposed memory usable; it reads as zero. Parts that were usable already keep their content. On
     * failure the range is unchanged. */
    int (*commit)(void *start, size_t size_bytes);

    /* Gives the memory of committed pages back to the system but keeps the pages usable: they read as zero again. On
     * failure (locked pages, say) a part may have gone back. */
    int (*purge)(void *start, size_t size_bytes);

    /* Gives the memory of committed pages back and makes every access to them fault, until they are committed again.
     * The range may be single pages of the system. On failure the range may still be usable. */
    int (*seal)(void *start, size_t size_bytes);

    /* Gives address space back to the system, committed or not. On failure (the limit on mappings, say) the range is
     * unchanged. */
    int (*release)(void *start, size_t size_bytes);

    /* Extends committed memory without moving it; the new part reads as zero. */
    int (*grow)(void *start, size_t old_bytes, size_t new_bytes);

    /* Moves committed memory to target, a reserved range of new_bytes; the part beyond old_bytes reads as zero. On
     * success start is no longer reserved. On failure start is unchanged, but target may be gone: kernels before about
     * 6.17 unmap it before they look at start. */
    int (*move)(void *start, size_t old_bytes, void *target, size_t new_bytes);

    /* The system's page size in bytes: a power of two, at most PAGE_BYTES, the same at each call. */
    size_t (*page_bytes)(void);
};

extern HAK_HIDDEN const struct os_ops *os; /* the table in use */
extern HAK_HIDDEN const struct os_ops os_linux_ops; /* the system itself */

static inline size_t os_page_bytes(void)
{
    return os->page_bytes();
}

/* Whether purge asks for madvise, or else maps fresh memory at the same place (at first). A mapping passes filters of a
 * program with one thread, which may end it for madvise. But it stops other threads' page faults for a moment, drops advice
 * that was given, makes locked pages others, and does not merge with what a forked child has from its parent. */
void os_purge_by_advice(bool yes);

/* Under VALIDATE: whether any memory was purged or sealed, or a superslab released, which its caller notes. So memory that
 * reads as zero may have been used. */
void os_note_purged(void);
bool os_has_purged(void);

/* As os->commit, for a range of which nothing is usable yet. If a change of protection is refused, whatever the error, it maps
 * memory elsewhere and moves it there. The system counts that memory before the range is touched. If the move fails too, the
 * range is reserved as before. */
int os_commit_fresh(void *start, size_t size_bytes);

/* Milliseconds since a fixed moment in the past. Never goes back; coarse. */
uint64_t os_now_ms(void);

/* How much address space the process may have (RLIMIT_AS); UINT64_MAX: no limit. For the start of the heap: a filter that
 * the program installs later (seccomp) may end a process that asks. */
uint64_t os_address_space_limit_bytes(void);

/* Whether size_bytes of address space can be had at once, as far as that can be known. Maps them for a moment, which no
 * filter of a program that allocates can forbid. */
bool os_has_space(size_t size_bytes);

/* What the kernel told the process at its start (the auxiliary vector, AT_*); 0 if it said nothing. Any thread, also in a
 * signal's handler. Keeps errno. */
uintptr_t os_told(unsigned long what);

/* Some address in the program's own file, and so near its static data and the break; 0 where that is not known. */
uintptr_t os_program_address(void);

/* The same in the first thread's stack. */
uintptr_t os_stack_address(void);

/* Whether the process has privileges that its caller lacks (AT_SECURE: setuid, file capabilities). Then the caller
 * chose its environment, which must not be obeyed. */
bool os_is_privileged(void);

/* Waits until *word differs from value or a wake comes; may return early. */
void os_wait(uint32_t *word, uint32_t value);
void os_wake_one(uint32_t *word);

/* As os_wait, for at most ms. */
void os_wait_ms(uint32_t *word, uint32_t value, uint32_t ms);

/* Advises the system to back a range with huge pages. */
void os_advise_huge(void *start, size_t size_bytes);

/* Makes huge pages of a committed range at once, which copies it (Linux 6.1). Pages that were not resident are then.
 * Returns 0 or an errno value: EINVAL where the system cannot. */
int os_collapse(void *start, size_t size_bytes);

/* Faults a committed range in, for writing, without changing it. Returns 0 or an errno value; a part may be resident
 * then. */
int os_populate(void *start, size_t size_bytes);

/* How many bytes of a range are resident; 0 where that cannot be known. size_bytes at most SUPERSLAB_BYTES. */
size_t os_resident_bytes(void *start, size_t size_bytes);

/* A write beyond the limit on file sizes is EFBIG, and also sends SIGXFSZ; one to a pipe that nobody reads is EPIPE, and also
 * sends SIGPIPE. Either would end the program for a text of ours. Between these two calls of one thread they wait, and the second
 * takes what came; but one that waited before is the program's. The two functions below call them. */
struct os_write_signals {
    uint64_t mask; /* of before */
    uint64_t waited;
    bool is_held;
};
struct os_write_signals os_write_signals_hold(void);
void os_write_signals_release(const struct os_write_signals *held);

/* Writes all of the bytes, in as many calls as that takes. Returns 0 or an errno value. Async-signal-safe. */
int os_write_all(int fd, const void *bytes, size_t size_bytes);

/* Writes text to standard error without stdio, in one call where the system takes it whole. */
void os_write_error(const char *text, size_t size_bytes);
