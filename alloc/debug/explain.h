/* explain.h: what a failfast report says of an address beyond the address itself: the block, its frame, where it
 * came from and went, and what to do next. Not a part of the release library. */
#pragma once

/* Lets reports ask. Any number of times, any thread. */
void explain_start(void);
