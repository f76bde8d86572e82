/* thread_local.c: a thread clears its current context when its request ends, and logs a line after that. Another thread
 * clears its own context, which is harmless. */
// expect: library=both cause=null_stored grade=found
// build: -O2 -fomit-frame-pointer
#include "../program.h"

struct context {
    uint64_t request;
    char name[40];
};

static _Thread_local struct context *context;

PLAINLY static void begin_request(uint64_t request)
{
    context = (struct context *)need(malloc(sizeof *context));
    context->request = request;
}

PLAINLY static void end_request(void)
{
    free(context);
    context = NULL; /* guilty */
}

PLAINLY static uint64_t log_line(void)
{
    return context->request;
}

static void *serve(void *argument)
{
    uint64_t logged = 0;
    for (uint64_t i = 0; i < 3; i++) {
        begin_request(i);
        logged += log_line();
        end_request();
    }
    if (argument != NULL) logged += log_line(); /* one line too late */
    return argument == NULL || logged == 0 ? NULL : argument;
}

int main(void)
{
    static int last;
    earlier_owners(sizeof(struct context));
    in_thread(serve, NULL);
    in_thread(serve, &last);
    return 4;
}
