/* Starts a program with AT_SECURE set, as the system does for a program with privileges of its own (setuid). usage:
 * conform-secure PROGRAM [ARGUMENT]...
 * Acts as a debugger and writes the flag where the kernel has put it, before the program's first instruction, which
 * needs no root. The exit status is the program's, or 128 plus its signal. If the flag cannot be set, it says why and
 * exits with 77. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void skip(const char *why)
{
    puts(why);
    fflush(stdout);
    _exit(77);
}

static long *stack_of(pid_t child)
{
#if defined(__x86_64__)
    struct user_regs_struct registers;
    struct iovec into = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, child, (void *)NT_PRSTATUS, &into) != 0) return NULL;
    return (long *)registers.rsp;
#elif defined(__aarch64__)
    struct user_regs_struct registers;
    struct iovec into = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, child, (void *)NT_PRSTATUS, &into) != 0) return NULL;
    return (long *)registers.sp;
#else
    (void)child;
    return NULL;
#endif
}

static long word(pid_t child, const long *at)
{
    return ptrace(PTRACE_PEEKDATA, child, (void *)at, NULL);
}

/* The stack of a program that has not begun has: the count, the arguments, 0, the environment, 0, then pairs up to
 * AT_NULL. */
static bool set_secure(pid_t child)
{
    long *at = stack_of(child);
    if (at == NULL) return false;
    at += word(child, at) + 2;
    while (word(child, at++) != 0) {}
    for (; word(child, at) != AT_NULL; at += 2)
        if (word(child, at) == AT_SECURE) return ptrace(PTRACE_POKEDATA, child, (void *)(at + 1), (void *)1) == 0;
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    pid_t child = fork();
    if (child < 0) skip("cannot start a child");
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) skip("the system denies ptrace");
        execv(argv[1], argv + 1);
        skip("cannot start the program");
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) skip("the child is gone");
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (!set_secure(child)) {
        ptrace(PTRACE_KILL, child, NULL, NULL);
        skip("the flag AT_SECURE cannot be set here");
    }
    ptrace(PTRACE_DETACH, child, NULL, NULL);
    if (waitpid(child, &status, 0) != child) skip("the child is gone");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
