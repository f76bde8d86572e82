/* os.h: all that the allocator asks of the system, as a written contract and a table of calls.
 *
 * The table is replaced only by tests, before threads start (os_fault.c fails its nth call).
 * Ranges are multiples of PAGE_BYTES in start and size unless a line says otherwise. Calls that
 * can fail return 0 or an errno value; every call keeps errno. Any thread may call; all may be
 * slow. Nothing here calls upward, takes a lock of the allocator, or allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

struct os_ops {
    /* Address space of size_bytes at a multiple of align_bytes (a power of two, at least
     * PAGE_BYTES), which must not be touched before commit. With at != NULL: exactly there, and
     * over nothing that is in use. NULL when it cannot be had. */
    void *(*reserve)(void *at, size_t size_bytes, size_t align_bytes);

    /* Makes reserved memory readable, as zeros, and not writable: it costs no memory and counts
     * against no limit but that of address space. */
    int (*expose)(void *start, size_t size_bytes);

    /* Makes reserved or exposed memory usable; it reads as zero, and what was usable already keeps
     * its content. On failure the range is unchanged. */
    int (*commit)(void *start, size_t size_bytes);

    /* Takes the memory from committed pages but keeps them usable: they read as zero again. On
     * failure (locked pages, say) some may have been taken. */
    int (*purge)(void *start, size_t size_bytes);

    /* Takes the memory from committed pages, and they must not be touched until they are committed again: from then
     * on any access faults. Also for single pages of the system. On failure the range may be usable still. */
    int (*seal)(void *start, size_t size_bytes);

    /* Gives address space back, committed or not. On failure (the limit on mappings) the range is
     * unchanged. */
    int (*release)(void *start, size_t size_bytes);

    /* Makes committed memory longer where it stands; the new part reads as zero. */
    int (*grow)(void *start, size_t old_bytes, size_t new_bytes);

    /* Moves committed memory into target, which is reserved and has new_bytes; what is beyond
     * old_bytes reads as zero. On success start is no longer reserved. On failure start stands, and
     * target may be gone: kernels before 6.17 or so unmap it before they look at start. */
    int (*move)(void *start, size_t old_bytes, void *target, size_t new_bytes);
};

extern HAK_HIDDEN const struct os_ops *os; /* the table in use */
extern HAK_HIDDEN const struct os_ops os_linux_ops; /* the system itself */

/* Milliseconds since some moment; never goes back; coarse. */
uint64_t os_now_ms(void);

/* How much address space the process may have (RLIMIT_AS); UINT64_MAX: no limit. */
uint64_t os_address_space_limit_bytes(void);

/* Whether the process has privileges that its caller lacks (AT_SECURE: setuid, file capabilities). Its environment is
 * then the caller's choice, and must not be obeyed. */
bool os_is_privileged(void);

/* The system's page size in bytes, read once; at most PAGE_BYTES. */
size_t os_page_bytes(void);

/* Waits until *word differs from value or a wake comes; may return early. */
void os_wait(uint32_t *word, uint32_t value);
void os_wake_one(uint32_t *word);

/* Advice for a range whose pages all are in use: one huge page if the system likes. */
void os_advise_huge(void *start, size_t size_bytes);

/* Writes text to standard error in one call, without stdio. */
void os_write_error(const char *text, size_t size_bytes);
