/* validate.h: the checks of the debug-validation build, at the few places that every block passes. Callers write `if
 * (VALIDATE) validate_...`. validate.c is not a part of the release library, so a call without the guard does not link
 * there.
 *
 * A bit for every granule of a superslab says whether a live block starts there. The thread that allocates a block sets
 * it, and the thread that frees the block clears it. At level 0 (report/settings.h) nothing is checked or marked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct block;
struct slab;
struct superslab;

/* At the exit of malloc: checks that the block is of this class and belongs to the caller's owner, that its link is
 * NULL or leads to a block of the same class, and that it was not live. Marks it live. */
void validate_alloc(const struct block *block, uint32_t class_index, uint32_t owner_tag);

/* As validate_alloc, for a run, by its first page. */
void validate_alloc_run(const void *start);

/* At the entry of free, for a pointer whose page has a tag: true if a live block of this allocator starts there, which
 * is then marked free. Otherwise reports it, which ends the process or returns false; then the free must do nothing.
 * heap/huge.c checks huge blocks. */
bool validate_free(const void *pointer);

/* As validate_free, for a block that is about to be resized: it stays live. */
bool validate_live(const void *pointer);

/* Whether a live block of a slab or a live run of the superslab starts here. */
bool validate_is_live(const struct superslab *superslab, const void *start);

/* For a list that moves between a bin, a magazine and a slab: checks that its head is a block of the class. */
void validate_list(const struct block *head, uint32_t class_index);

/* For a remote list that a drain has taken: checks that it links exactly count blocks of the slab. */
void validate_remote(struct slab *slab, const struct block *head, uint32_t count);

/* For count blocks that come back to a slab: checks that at least that many were in use. */
void validate_returned(const struct slab *slab, uint32_t count);

/* For pages whose blocks are all given back at once: none is live any more. */
void validate_discarded(const void *start, uint32_t pages);

/* How many live blocks start in a page of a superslab. For inspection. */
uint32_t validate_live_count(const struct superslab *superslab, uint32_t page);
