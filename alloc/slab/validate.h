/* validate.h: the checks of the debug-validation build at its choke points. Callers write
 * `if (VALIDATE) validate_...`; validate.c is not a part of the release library, so an unguarded
 * call does not link there.
 *
 * A bit for every granule of a superslab says whether a live block starts there. It is set when a
 * block goes to the program and cleared when it comes back, by whichever thread. At level 0
 * (report/settings.h) nothing is checked or marked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct block;
struct slab;
struct superslab;

/* The exit of malloc: the block is of this class and belongs to the caller's owner, its link leads
 * to a block of the same class or nowhere, and it was not live. Marks it live. */
void validate_alloc(const struct block *block, uint32_t class_index, uint32_t owner_tag);

/* As validate_alloc for the first page of a run. */
void validate_alloc_run(const void *start);

/* The entry of free, for a pointer that has a tag: true where it is a live block of this allocator that starts
 * here, which is then marked free. Otherwise a report, which ends the process or says false: the free is to do
 * nothing. Huge blocks are checked where their descriptors are. */
bool validate_free(const void *pointer);

/* As validate_free, of a block that is to be resized: it stays live. */
bool validate_live(const void *pointer);

/* Whether a live block of a slab or a live run starts here. */
bool validate_is_live(const void *start);

/* A list moves between a bin, a magazine and a slab: its head is a block of the class. */
void validate_list(const struct block *head, uint32_t class_index);

/* A drain has taken a slab's remote list: it links count blocks of the slab, and no more. */
void validate_remote(struct slab *slab, const struct block *head, uint32_t count);

/* count blocks come back to a slab: no more than are out. */
void validate_returned(const struct slab *slab, uint32_t count);

/* Live blocks that start in a superslab's page. For inspection. */
uint32_t validate_live_count(const struct superslab *superslab, uint32_t page);
