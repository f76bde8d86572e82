/* backing.h: memory put behind superslabs before the program touches it: at start, and as huge pages. Both are off unless
 * an option asks for them.
 *
 * Huge pages save page faults and entries of the TLB, and cost memory where a superslab is not full. So a policy
 * (HAKMEM_HUGE_PAGES) says which superslabs get them. HUGE_ALL lets the system choose from the first touch on. HUGE_FULL
 * waits: a superslab that has no free page in two rounds, and of which all but a sixteenth is resident, is made huge
 * pages at once. A round is one of the tick, or comes when a new superslab is made. Searches claim from the bottom, so the superslabs there stay full. When some of its pages are
 * purged later, the system splits the huge page. (Hunter et al., "Beyond malloc efficiency to fleet efficiency: a
 * hugepage-aware memory allocator", OSDI 2021, pack for the same reason.) */
#pragma once

#include <stddef.h>

enum {
    HUGE_ROUND_SUPERSLABS = 4, /* full superslabs that one round of the tick makes huge pages, at most */
};

enum huge_policy { HUGE_OFF, HUGE_ALL, HUGE_FULL };

/* Called once, at start. */
void backing_set_huge_policy(enum huge_policy policy);
enum huge_policy backing_huge_policy(void);

/* Called under HUGE_FULL by each round of the tick, and when a superslab was made: looks at no more than HUGE_ROUND_SUPERSLABS superslabs that are full,
 * so that the thread whose call makes the round does not wait for long. */
void backing_round(void);

/* Superslabs ever made huge pages by a round. */
size_t backing_collapsed(void);

/* Makes superslabs and faults them in, until size_bytes of free pages have memory. The purge then keeps as many free
 * pages, until pool_purge_all. Returns how many bytes it has faulted in: fewer where the system or the limit refuses
 * more. Called at start. */
size_t backing_prewarm(size_t size_bytes);
