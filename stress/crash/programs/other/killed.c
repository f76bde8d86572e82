/* killed.c: another process sends it SIGSEGV. No code of the program is at fault, so no line is marked. */
// expect: library=both cause=killed grade=not_found
// run: signal SIGSEGV
#include "../program.h"

PLAINLY static void wait_for_ever(const char *text)
{
    puts(text);
    fflush(stdout);
    for (;;) pause();
}

int main(void)
{
    earlier_owners(64);
    char *text = copy_text("ready");
    wait_for_ever(text);
    return 4;
}
