/* crash_program.c: crashes in the way that its argument names; crash_test runs it and reads the record. It first prints
 * facts that the record must contain, such as a block's address, as lines "NAME VALUE". The library is preloaded, or
 * linked in.
 *
 * More than 400 lines: one function for each way to crash, and the table that names them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash_misuse.h"
#include "hakmem/crash.h"
#include "hakmem/hakmem.h"

/* Weak: nothing defines them until the library is preloaded. */
#pragma weak hak_crash_handler_install
#pragma weak hak_crash_handler_remove
#pragma weak hak_crash_context

PLAINLY static void write_null(void)
{
    *(volatile int *)(uintptr_t)0 = 1;
}

PLAINLY static int divide(volatile int *by)
{
    return 1000 / *by;
}

PLAINLY static void run_no_instruction(void)
{
    __builtin_trap();
}

/* Overwrites every byte of the arguments and the environment, as programs do that show a title in ps. */
PLAINLY static void overwrite_title(char **argv)
{
    size_t length = strlen(argv[0]) + 1 + strlen(argv[1]) + 1;
    memset(argv[0], ' ', length - 1);
    memset(environ[0], ' ', strlen(environ[0]));
}

/* Calls this address, where no code is, on a chain of three frames: the second lies above the first, the third below
 * both. A high address gets a page that can be read. */
PLAINLY static void call_on_falling_frames(uint64_t address)
{
#if defined __x86_64__
    static uint64_t frames[] = {0,         0x1111000, 0,
                                0x2222000, 0,         0x3333000}; /* of each: the next one, the return address */
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (address >= 0x10000000 && mmap((void *)(uintptr_t)address, 4096, PROT_READ, flags, -1, 0) == MAP_FAILED)
        _exit(3);
    frames[2] = (uint64_t)(uintptr_t)&frames[4];
    frames[4] = (uint64_t)(uintptr_t)&frames[0];
    __asm__ volatile("movq %0, %%rbp\n\tcall *%%rax" : : "r"(&frames[2]), "a"(address) : "memory");
#else
    (void)address;
#endif
}

/* Another process sends the signal. */
static void sent_by_child(void)
{
    pid_t parent = getpid();
    if (fork() == 0) {
        tell("child", (uint64_t)getpid());
        kill(parent, SIGSEGV);
        _exit(0);
    }
    for (;;) pause();
}

/* Both pointers are in registers when the program stops. */
PLAINLY static void write_wild(char *block, volatile char *wild)
{
    __asm__ volatile("" : "+r"(block), "+r"(wild));
    *wild = 1;
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* Writes to an address that the processor cannot have. */
PLAINLY static void write_unaddressable(void)
{
    *(volatile int *)(uintptr_t)0x6b6b6b6b6b6b6b6b = 1;
}

static void wild(void)
{
    char *volatile block = malloc(100);
    tell("block", (uintptr_t)block);
    write_wild(block + 20, (char *)(uintptr_t)0x10101010);
}

/* The fault's address is in a block of this size. */
static void protect(size_t size_bytes)
{
    char *volatile block = malloc(size_bytes);
    char *page = (char *)(((uintptr_t)block + 8191) & ~(uintptr_t)4095);
    memset(block, 'x', size_bytes);
    tell("block", (uintptr_t)block);
    tell("fault", (uintptr_t)page + 16);
    if (mprotect(page, 4096, PROT_READ) != 0) _exit(3);
    write_wild(block, page + 16);
}

PLAINLY static size_t recurse(volatile char *above)
{
    volatile char frame[4000];
    frame[0] = *above;
    if (frame[0] == 'x') return 0; /* never; a compiler may not know */
    return recurse(frame) + (size_t)frame[0];
}

static void *recurse_in_thread(void *argument)
{
    char *volatile block = malloc(64); /* its heap, and with it its signal stack */
    free(block);
    recurse((volatile char *)"");
    return argument;
}

static void child(void)
{
    pid_t process = fork();
    if (process == 0) write_null();
    int status;
    tell("child", (uint64_t)process);
    if (waitpid(process, &status, 0) != process || !WIFSIGNALED(status)) _exit(3);
    _exit(WTERMSIG(status) == SIGSEGV ? 0 : 4);
}

/* A child that installs the handler itself, and crashes. */
static void child_installs(void)
{
    pid_t process = fork();
    if (process == 0) {
        hak_crash_handler_remove();
        if (hak_crash_handler_install(getenv("HAKMEM_CRASH_DIR")) != 0) _exit(5);
        write_null();
    }
    int status;
    tell("child", (uint64_t)process);
    if (waitpid(process, &status, 0) != process || !WIFSIGNALED(status)) _exit(3);
    _exit(WTERMSIG(status) == SIGSEGV ? 0 : 4);
}

static pthread_barrier_t together;

static void *crash_together(void *argument)
{
    pthread_barrier_wait(&together);
    write_null();
    return argument;
}

static void two_threads(void)
{
    pthread_t threads[2];
    pthread_barrier_init(&together, NULL, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, crash_together, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void on_previous(int signal_number, siginfo_t *info, void *context)
{
    char line[128];
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    int length = snprintf(line, sizeof line, "previous %d %p %d\nblocked%s%s%s%s\n", signal_number, info->si_addr,
                          context != NULL, sigismember(&blocked, SIGSEGV) ? ",SEGV" : "",
                          sigismember(&blocked, SIGUSR1) ? ",USR1" : "", sigismember(&blocked, SIGUSR2) ? ",USR2" : "",
                          sigismember(&blocked, SIGHUP) ? ",HUP" : "");
    if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(3);
    _exit(42);
}

static sigjmp_buf survived;

static void on_survive(int signal_number)
{
    siglongjmp(survived, signal_number);
}

/* Puts our handler after hakmem's. */
static void put_behind(struct sigaction *action)
{
    hak_crash_handler_remove();
    if (sigaction(SIGSEGV, action, NULL) != 0) _exit(3);
    if (hak_crash_handler_install(getenv("HAKMEM_CRASH_DIR")) != 0) _exit(4);
}

/* Crashes with one signal blocked by the program, and another blocked while its handler runs. */
static void previous(int more_flags)
{
    struct sigaction action = {.sa_sigaction = on_previous, .sa_flags = SA_SIGINFO | more_flags};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hangup, NULL);
    put_behind(&action);
    write_null();
}

static void survive(void)
{
    struct sigaction action = {.sa_handler = on_survive};
    put_behind(&action);
    volatile int crashes = 0;
    sigsetjmp(survived, 1);
    if (crashes++ < 3) write_null();
    _exit(0);
}

/* Survives the find of a check, then aborts again for another reason. */
static void abort_after(void)
{
    struct sigaction action = {.sa_handler = on_survive, .sa_flags = (int)SA_RESETHAND};
    hak_crash_handler_remove();
    if (sigaction(SIGABRT, &action, NULL) != 0) _exit(3);
    if (hak_crash_handler_install(getenv("HAKMEM_CRASH_DIR")) != 0) _exit(4);
    if (sigsetjmp(survived, 1) == 0) misuse("double_free");
    abort();
}

/* The first thread to crash is stopped in the middle of its record until the second thread, which crashes then, has
 * continued. The second one continues without a record of its own, after waiting a while, even though the first record
 * is not complete. */
static atomic_bool first_writes, second_went_on;

static size_t wait_for_second(char *buffer, size_t room)
{
    (void)buffer;
    (void)room;
    atomic_store(&first_writes, true);
    while (!atomic_load(&second_went_on)) usleep(1000);
    return 0;
}

static void on_second(int signal_number)
{
    (void)signal_number;
    if (atomic_exchange(&second_went_on, true)) _exit(0); /* the first one, in its turn */
    for (;;) pause();
}

static void *crash_second(void *argument)
{
    while (!atomic_load(&first_writes)) usleep(1000);
    write_null();
    return argument;
}

static void second_waits(void)
{
    pthread_t thread;
    struct hak_crash_facts context = {.operations = wait_for_second};
    struct sigaction action = {.sa_handler = on_second};
    put_behind(&action);
    hak_crash_context(&context);
    pthread_create(&thread, NULL, crash_second, NULL);
    write_null();
}

static size_t write_operations(char *buffer, size_t room)
{
    static const char text[] = "  last ops of thread 0:\n    7: b1 = malloc(24)\n";
    size_t length = sizeof text - 1 < room ? sizeof text - 1 : room;
    memcpy(buffer, text, length);
    return length;
}

static size_t crash_in_operations(char *buffer, size_t room)
{
    (void)buffer;
    write_null();
    return room;
}

static void with_context(size_t (*operations)(char *, size_t))
{
    static uint64_t seed = 1234567890123456789, moment = 77;
    struct hak_crash_facts context = {
        .seed = &seed, .clock = &moment, .operations = operations, .reproduce = "the command --seed 1"};
    hak_crash_context(&context);
    moment = 78;
    write_null();
}

/* A record of an earlier process with this id already exists. */
static void name_in_use(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/hakmem-%d-%d-0.crash", getenv("HAKMEM_CRASH_DIR"), getpid(), getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0 || write(file, "earlier", 7) != 7 || close(file) != 0) _exit(3);
    write_null();
}

/* Maps the files m0, m1 and so on as code, like modules, until one is missing. */
static void many_modules(void)
{
    char name[16];
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, "m%d", i);
        int file = open(name, O_RDONLY);
        if (file < 0) break;
        if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) _exit(3);
        close(file);
    }
    write_null();
}

static void directory_gone(void)
{
    if (rmdir(getenv("HAKMEM_CRASH_DIR")) != 0) _exit(3);
    write_null();
}

/* From now on the system does not execute this call, except on standard error, and returns this error, as a sandbox may.
 * With error 0 the call returns 0. */
static void crash_refused(unsigned call, unsigned error)
{
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, call},
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args)},
        {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, STDERR_FILENO},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("refused %d\n", errno);
        exit(0);
    }
    write_null();
}

/* Prints the error numbers of refused calls, and checks that they change nothing. */
static void refuse(void)
{
    struct sigaction now;
    printf("again %d\n", hak_crash_handler_install("."));
    hak_crash_handler_remove();
    hak_crash_handler_remove();
    sigaction(SIGSEGV, NULL, &now);
    printf("removed %d\n", now.sa_handler == SIG_DFL);
    printf("missing %d\nfile %d\nempty %d\n", hak_crash_handler_install("/no/such"),
           hak_crash_handler_install("/proc/self/exe"), hak_crash_handler_install(""));
    sigaction(SIGSEGV, NULL, &now);
    printf("unchanged %d\n", now.sa_handler == SIG_DFL);
}

static void in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, recurse_in_thread, NULL);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "null") == 0) write_null();
    if (strcmp(how, "wild") == 0) wild();
    if (strcmp(how, "unaddressable") == 0) write_unaddressable();
    if (strcmp(how, "slab") == 0) protect(16000);
    if (strcmp(how, "run") == 0) protect(300000);
    if (strcmp(how, "huge") == 0) protect(10000000);
    if (strcmp(how, "overflow") == 0) recurse((volatile char *)"");
    if (strcmp(how, "thread_overflow") == 0) in_thread();
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "sent") == 0) kill(getpid(), SIGSEGV);
    if (strcmp(how, "queued") == 0) sigqueue(getpid(), SIGSEGV, (union sigval){0});
    if (strcmp(how, "divide") == 0) return divide(&(int){0});
    if (strcmp(how, "no_instruction") == 0) run_no_instruction();
    if (strcmp(how, "falling_frames") == 0 && argc > 2) call_on_falling_frames(strtoull(argv[2], NULL, 0));
    if (strcmp(how, "title") == 0) {
        overwrite_title(argv);
        write_null();
    }
    if (strcmp(how, "title_misuse") == 0) {
        overwrite_title(argv);
        misuse("double_free");
    }
    if (strcmp(how, "sent_by_child") == 0) sent_by_child();
    if (strcmp(how, "misuse") == 0 && argc > 2) misuse(argv[2]);
    if (strcmp(how, "abort_after") == 0) abort_after();
    if (strcmp(how, "bad_link") == 0) bad_link();
    if (strcmp(how, "freed_twice") == 0) freed_twice();
    if (strcmp(how, "child") == 0) child();
    if (strcmp(how, "child_installs") == 0) child_installs();
    if (strcmp(how, "two_threads") == 0) two_threads();
    if (strcmp(how, "second_waits") == 0) second_waits();
    if (strcmp(how, "previous") == 0) previous(0);
    if (strcmp(how, "previous_nodefer") == 0) previous(SA_NODEFER);
    if (strcmp(how, "survive") == 0) survive();
    if (strcmp(how, "context") == 0) with_context(write_operations);
    if (strcmp(how, "bad_context") == 0) with_context(crash_in_operations);
    if (strcmp(how, "directory_gone") == 0) directory_gone();
    if (strcmp(how, "unnamed_error") == 0) crash_refused(SYS_openat, 1000); /* libc has no name for it */
    if (strcmp(how, "write_nothing") == 0) crash_refused(SYS_write, 0);
    if (strcmp(how, "name_in_use") == 0) name_in_use();
    if (strcmp(how, "many_modules") == 0) many_modules();
    if (strcmp(how, "refuse") == 0) refuse();
    return 0;
}
