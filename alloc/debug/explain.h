/* explain.h: the part of a failfast report that explains the address: the block, its frame, where it was allocated and
 * freed, and what to do next. Not a part of the release library. */
#pragma once

/* Makes reports explain their address from now on. May be called again; any thread. */
void explain_start(void);
