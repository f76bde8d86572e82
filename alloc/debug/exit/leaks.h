/* leaks.h: live blocks that nothing points to, at the end of the process, by a scan of all memory that the program may have
 * pointers in (HAKMEM_FAILFAST_LEAKS). Not a part of the release library. */
#pragma once

/* Reports them by the place of their allocation, where that is known. The caller's thread is the only one. */
void leaks_report(void);
