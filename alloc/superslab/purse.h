/* purse.h: how many bytes the heaps of all threads may keep idle for what they may want again. A heap buys on slow paths, and
 * gives all that it bought back when it idles. While all together have bought less than PURSE_FIRST_BYTES, a heap buys what it
 * may come to want. Beyond that it buys only if it gave back too early, since the program wanted those blocks again: then all
 * may have PURSE_BYTES, or 1/8 (1 >> PURSE_SHARE_LOG2) of the pages in use if that is more. PURSE_HEAP_LEAST_BYTES
 * a heap may have in any case. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    PURSE_FIRST_BYTES = 5 << 20,
    PURSE_BYTES = 32 << 20,
    PURSE_SHARE_LOG2 = 3,
    PURSE_HEAP_LEAST_BYTES = 8 << 10,
};

/* Adds bytes to what an account has bought. is_wanted: the class wants blocks again that it gave back. False: the purse has not
 * enough. */
bool purse_buy(size_t *bought_bytes, size_t bytes, bool is_wanted);

/* Takes bytes from an account, at most all. */
void purse_return(size_t *bought_bytes, size_t bytes);

/* What all accounts have bought, and the most that they may have now. */
size_t purse_bought_bytes(void);
size_t purse_bytes_max(void);

/* After fork, when a thread may have been between the purse and its account: what the accounts that are left have. */
void purse_recount(size_t bytes);
