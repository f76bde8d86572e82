/* clock.h: the time, by the kernel's function that it maps into each process (the vDSO), and by a system call if there is none.
 * libc's clock_gettime does the same, but a program may define one, and allocate in it while the heap is half changed. */
#pragma once

#include <time.h>

/* Any thread, also in a signal's handler. Takes no lock, and keeps errno. If the clock is not known, *now is 0. */
void clock_read(clockid_t clock, struct timespec *now);
