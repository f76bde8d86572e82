/* exit_program.c: a program whose handler of a signal calls exit, as many do for SIGTERM, wherever the signal comes. Runs calls
 * of malloc, realloc and free instruction by instruction, by the trap flag of x86-64. At every STRIDE-th instruction a
 * copy of the process calls exit from the handler. It must end with status 0: its end finds the heap in the middle of a call,
 * and may neither wait for a lock that the call holds nor take a block that is half made for a broken one.
 *
 *   exit_program STRIDE
 *
 * Exit status 1, and a line for each instruction at which a copy ended in another way. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { TRAP_FLAG = 0x100, SECONDS = 10, FAILURES_MAX = 20 };

static unsigned long stride, steps, copies, failures;
static uintptr_t last; /* an instruction that repeats itself counts once */
static volatile sig_atomic_t is_stepping;

/* Without libc's fork, whose handlers would put the heap in order. */
static void exit_in_copy(uintptr_t at)
{
    const long copy = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (copy == 0) exit(0);
    if (copy < 0) abort();
    int status = -1;
    for (int ms = 0; waitpid((pid_t)copy, &status, WNOHANG) == 0; ms++) {
        if (ms == SECONDS * 1000) kill((pid_t)copy, SIGKILL);
        usleep(1000);
    }
    copies++;
    if (status == 0) return;
    if (failures++ >= FAILURES_MAX) return;
    char line[120]; /* dprintf would allocate */
    const int bytes = snprintf(line, sizeof line, "step %lu, at %#lx: exit ended with status %#x\n", steps,
                               (unsigned long)at, (unsigned)status);
    if (write(STDERR_FILENO, line, (size_t)bytes) != bytes) abort();
}

static void on_step(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)info;
    ucontext_t *user = context;
    if (!is_stepping) {
        user->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        return;
    }
    user->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    const uintptr_t at = (uintptr_t)user->uc_mcontext.gregs[REG_RIP];
    if (at != last && ++steps % stride == 0) exit_in_copy(at);
    last = at;
}

static void use(size_t size_bytes, size_t then_bytes)
{
    char *block = malloc(size_bytes);
    if (block == NULL) abort();
    block = realloc(block, then_bytes);
    if (block == NULL) abort();
    free(malloc(size_bytes));
    free(block);
}

/* A copy of many bytes would be a trap for each: so realloc to few bytes, or in place. */
static void use_all(void)
{
    static const size_t sizes[][2] = {{40, 100}, {3000, 200}, {20000, 1000}, {100000, 70000}, {3u << 20, 5u << 19}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) use(sizes[i][0], sizes[i][1]);
}

int main(int argc, char **argv)
{
    stride = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (stride == 0) return 2;
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    use_all(); /* the first calls of a process do much that is not of interest */
    is_stepping = 1;
    raise(SIGTRAP);
    use_all();
    is_stepping = 0;
    printf("%lu instructions, %lu copies, %lu failures\n", steps, copies, failures);
    return failures > 0 || copies == 0;
}
