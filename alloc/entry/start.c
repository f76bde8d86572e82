/* start.c: what runs before main: the options, and the crash handler where one is asked for. The heap itself starts at
 * its first use, which in a program that preloads the library is long before. */
#include <unistd.h>

#include "cache/thread.h"
#include "entry/crash.h"
#include "hakmem/hakmem.h"
#include "heap/explain.h"
#include "heap/options.h"

__attribute__((constructor)) static void start(void)
{
    thread_process_start();
    if (VALIDATE) explain_start();
    options_read(environ);
    crash_start();
}

__attribute__((destructor)) static void finish(void)
{
    if (option_value(OPTION_STATS) != 0) hak_stats_print(stderr);
}
