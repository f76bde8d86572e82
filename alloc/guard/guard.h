/* guard.h: sampled blocks, each alone on a page of the system between two pages that nobody may touch.
 *
 * One range of address space, reserved at start, holds all slots: a page that faults, the page of slot 0, a page that
 * faults, the page of slot 1, and so on. A block stands at the end of its page, its size rounded up to 16: so the first
 * access behind that faults. What is not found: an access in what the rounding adds (at most 15 bytes), and one before
 * the block that stays in its page. free takes the page's memory and makes it fault; the slot then waits behind all
 * others that are free, so that an address comes again as late as can be. When every slot is live nothing is sampled.
 *
 * The range has the tag CLASS_GUARD in the page map, which is no thread's: so free and realloc come here by their slow
 * paths, and the hit paths know nothing of it.
 *
 * States of a slot: UNUSED or FREED and in the queue; BUSY and of one thread; LIVE. A child forked while a thread has
 * a slot BUSY loses that slot, and nothing else.
 *
 * Where the idea comes from: GWP-ASan (Serebryany and others, ICSE-SEIP 2024), and Electric Fence. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "hakmem/record.h"

/* Who called malloc or free, and from where: return addresses, the innermost first, our own functions among them. */
struct guard_event {
    uint32_t thread, count; /* 0, 0: it has not happened */
    uintptr_t frames[GUARD_FRAMES];
};

/* What is known of an address in the range. */
struct guard_history {
    uint64_t address, start, size_bytes; /* start 0: no block has been near */
    enum record_state state;             /* live, freed or unknown */
    enum record_finding finding;         /* what an access to the address would be */
    uint32_t slot;
    struct guard_event allocated, freed;
};

/* Reserves the range, once in a process. False when the system has no room. The heap must have started; and the
 * unwinder must have been used before, since that may allocate. */
bool guard_start(uint32_t slots);

/* A block of size_bytes, from 1 to GUARD_BYTES_MAX, aligned to 16. NULL when all slots are live, or the system has no
 * memory. Any thread; keeps errno; takes the GUARD lock. */
void *guard_alloc(size_t size_bytes);

/* Of pointers whose tag is CLASS_GUARD. What is no live block's start, these tell of on standard error, and end the
 * process by abort(). guard_resize is false where the block must move. */
void guard_free(void *pointer);
bool guard_resize(void *pointer, size_t size_bytes);

/* What was asked for, rounded up to 16; 0 where no live block begins. */
size_t guard_usable_size(const void *pointer);

/* How many blocks were ever sampled, and how many slots are taken now. While others go on, of some moment each. */
struct guard_figures {
    uint64_t sampled;
    uint32_t live, slots;
};
struct guard_figures guard_figures(void);

/* For reports, in a signal handler too: no lock, and any address whatever. False where it is not in the range. Between
 * two slots it is told of the nearer block. */
bool guard_find(uint64_t address, struct guard_history *history);

/* --- guard_report.c ---------------------------------------------------------------------------------------- */

/* One line on standard error. Fit for a signal handler. */
void guard_say(const struct guard_history *history);

/* guard_say, and abort(): a pointer that was given to free or realloc is not what it should be. */
HAK_NORETURN void guard_misused(const void *pointer, enum record_finding finding);

/* In the handler of that abort: what guard_misused was told in this thread. False: it was not called. */
bool guard_misuse(struct guard_history *history);

/* That handler is done: if the program survives, a later abort of this thread is not to be taken for that one. */
void guard_misuse_forget(void);
