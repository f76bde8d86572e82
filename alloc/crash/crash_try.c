/* crash_try.c: see crash_try.h. */
#include "crash/crash_try.h"

#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;
static volatile sig_atomic_t under_way;

bool crash_try(void (*step)(void *context), void *context)
{
    if (sigsetjmp(back, 1) != 0) return false;
    under_way = 1;
    step(context);
    under_way = 0;
    return true;
}

void crash_try_fail(void)
{
    if (!under_way) return;
    under_way = 0;
    siglongjmp(back, 1);
}
