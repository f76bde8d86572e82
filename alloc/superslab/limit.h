/* limit.h: how much memory the heap may have, and how much it has.
 *
 * Committed are the pages of slabs and runs, free pages that keep their memory, and huge mappings, live or cached: all
 * that may be resident. Metadata is not counted. The pool and heap/huge.c ask before they commit more. Two threads may
 * pass at one time, so the heap may exceed its limit by what the threads ask for in that moment. The figures order
 * nothing: relaxed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the limits in bytes; SIZE_MAX: none. Beyond the soft one at most SOFT_DIRTY_PAGES_MAX free pages keep memory. */
void limit_set(size_t limit_bytes);
void limit_soft_set(size_t limit_bytes);
size_t limit_get(void);
size_t limit_soft_get(void);

/* Bytes committed now, and the most there ever were. */
size_t limit_committed_bytes(void);
size_t limit_committed_peak_bytes(void);

/* Whether more_bytes may be committed as things are. */
bool limit_fits(size_t more_bytes);

/* The same, and if not, purges as many free pages as that takes. Purges none where all of them would not do. Not under a
 * lock. */
bool limit_allows(size_t more_bytes);

/* The same for a caller that has claimed free pages, claimed_dirty_pages of them with memory, and not counted them yet. */
bool limit_allows_beside(size_t more_bytes, size_t claimed_dirty_pages);

/* Whether the soft limit is exceeded. */
bool limit_soft_exceeded(void);

/* Counts bytes of huge mappings; negated, to subtract. */
void limit_count_huge(size_t bytes);

/* Notes the peak: called where pages were claimed. */
void limit_note_peak(void);
