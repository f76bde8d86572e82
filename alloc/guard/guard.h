/* guard.h: sampled blocks. Each lies alone on a page of the system, between two pages that fault on every access.
 *
 * One range of address space, reserved at start, holds all slots: a page that faults, the page of slot 0, a page that
 * faults, the page of slot 1, and so on. A block lies at the end of its page, with its size rounded up to 16, so that
 * the first access behind it faults. Two kinds of bad access are not found: one in the bytes that the rounding adds (at
 * most 15), and one before the block but in its page. free gives the page's memory back and makes the page fault. The
 * slot then goes to the end of the queue of free slots, so that its address is reused as late as possible. While every
 * slot is live, nothing is sampled.
 *
 * In the page map the range has the tag CLASS_GUARD, which belongs to no thread. So free and realloc find sampled
 * blocks on their slow paths, and the hit paths know nothing of them.
 *
 * States of a slot: UNUSED or FREED, and in the queue; BUSY, in the hands of one thread; LIVE. A child that is forked
 * while another thread has a slot BUSY loses that slot, and nothing else.
 *
 * The idea comes from GWP-ASan (Serebryany and others, ICSE-SEIP 2024), and Electric Fence. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "hakmem/record.h"

enum {
    GUARD_SLOTS = 1024, /* sampled blocks that may be live or remembered at one time */
    GUARD_SLOTS_MAX = 16384, /* each slot costs two of the 65530 mappings that the system gives a process */
    GUARD_FRAMES = 20, /* return addresses kept of malloc and of free: our own, and 16 of the program's */
};

/* The thread that called malloc or free, and its return addresses, the innermost first; our own functions are among
 * them. */
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

/* Reserves the range. Call it once in a process, after the heap has started and after the first use of the unwinder,
 * which may allocate. False when the system has no room. */
bool guard_start(uint32_t slots);

/* Returns a block of size_bytes, from 1 to GUARD_BYTES_MAX, aligned to 16. NULL when all slots are live, or the system
 * has no memory. Any thread; keeps errno; takes the GUARD lock. */
void *guard_alloc(size_t size_bytes);

/* For pointers whose tag is CLASS_GUARD. If the pointer is not the start of a live block, these report it on standard
 * error and abort. guard_resize returns false if the block must move. */
void guard_free(void *pointer);
bool guard_resize(void *pointer, size_t size_bytes);

/* The size that was asked for, rounded up to 16; 0 if no live block starts here. */
size_t guard_usable_size(const void *pointer);

/* How many blocks were ever sampled, and how many slots are taken now. While other threads run, the figures may be of
 * different moments. */
struct guard_figures {
    uint64_t sampled;
    uint32_t live, slots;
};
struct guard_figures guard_figures(void);

/* For reports. Takes any address and no lock; async-signal-safe. False if the address is not in the range. An address
 * between two slots is reported as belonging to the nearer block. */
bool guard_find(uint64_t address, struct guard_history *history);
