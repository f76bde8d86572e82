/* filter_program.c: a program that forbids itself system calls (seccomp) after its first malloc, as sandboxes do, and then lives
 * on. filter_check runs it on libc's malloc and on each library.
 *
 *   kill SCENE [CALL...]   a call that neither libc's malloc and threads make in this scene, nor is named, ends the process;
 *                          so does a flag that theirs never have. Chromium's filter is of this kind
 *   refuse SCENE           each call of a table fails with each of six errors, in a child for each. One line for each:
 *                          call, error, how many blocks were asked for, how many were refused
 *
 * SCENE: alone, threads (four beside each other, three times), or forked (the child of a program that had threads). */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
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

enum { SLOTS = 1000, ROUNDS = 2500, THREADS = 4, CODE_MAX = 160 };
static const size_t HOLE_BYTES = (size_t)256 << 30;

static _Atomic(unsigned) asked, refused;

/* --- filters -------------------------------------------------------------------------------------------------- */

static struct sock_filter code[CODE_MAX];
static unsigned short length;

static void add(uint16_t what, uint32_t value, uint8_t if_true, uint8_t if_false)
{
    if (length == CODE_MAX) abort();
    code[length++] = (struct sock_filter){what, if_true, if_false, value};
}

static void load(size_t offset)
{
    add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void result(uint32_t what)
{
    add(BPF_RET | BPF_K, what, 0, 0);
}

static void allow(long call)
{
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
    result(SECCOMP_RET_ALLOW);
}

static void install(void)
{
    struct sock_fprog filter = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0)
        return;
    _exit(77); /* the kernel lets no process refuse calls to itself */
}

static const long of_malloc[] = {SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_exit_group, SYS_write};
static const long of_threads[] = {
    SYS_madvise,        SYS_futex,        SYS_clone,          SYS_clone3,       SYS_exit,
    SYS_rseq,           SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity,
    SYS_set_robust_list};

static const struct {
    const char *name;
    long number;
} named[] = {{"close", SYS_close},   {"getpid", SYS_getpid}, {"gettid", SYS_gettid}, {"newfstatat", SYS_newfstatat},
             {"openat", SYS_openat}, {"read", SYS_read},     {"tgkill", SYS_tgkill}};

/* The flags of a call, and those that it may have. */
static const struct {
    long number;
    size_t half;
    uint32_t allowed;
} flags[] = {
    {SYS_mmap, offsetof(struct seccomp_data, args[2]), PROT_READ | PROT_WRITE},
    {SYS_mmap, offsetof(struct seccomp_data, args[3]),
     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | MAP_STACK},
    {SYS_mprotect, offsetof(struct seccomp_data, args[2]), PROT_READ | PROT_WRITE},
    {SYS_mremap, offsetof(struct seccomp_data, args[3]), MREMAP_MAYMOVE | MREMAP_FIXED},
    {SYS_madvise, offsetof(struct seccomp_data, args[2]), MADV_DONTNEED},
};

static void kill_others(bool has_threads, char **names)
{
    load(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)flags[i].number, 0, 4);
        load(flags[i].half);
        add(BPF_JMP | BPF_JSET | BPF_K, ~flags[i].allowed, 0, 1);
        result(SECCOMP_RET_KILL_PROCESS);
        load(offsetof(struct seccomp_data, nr));
    }
    for (size_t i = 0; i < sizeof of_malloc / sizeof *of_malloc; i++) allow(of_malloc[i]);
    for (size_t i = 0; has_threads && i < sizeof of_threads / sizeof *of_threads; i++) allow(of_threads[i]);
    for (; *names != NULL; names++)
        for (size_t i = 0; i < sizeof named / sizeof *named; i++)
            if (strcmp(*names, named[i].name) == 0) allow(named[i].number);
    result(SECCOMP_RET_KILL_PROCESS);
    install();
}

/* With `is_set`, only calls that have one of these bits in half a word of their arguments. */
static const struct refusal {
    const char *name;
    long number;
    size_t half;
    uint32_t is_set;
} refusals[] = {
    {"munmap", SYS_munmap, 0, 0},
    {"mprotect", SYS_mprotect, 0, 0},
    {"mremap", SYS_mremap, 0, 0},
    {"madvise", SYS_madvise, 0, 0},
    {"futex", SYS_futex, 0, 0},
    {"prlimit64", SYS_prlimit64, 0, 0},
    {"prctl", SYS_prctl, 0, 0},
    {"mincore", SYS_mincore, 0, 0},
    {"getpid", SYS_getpid, 0, 0},
    {"gettid", SYS_gettid, 0, 0},
    {"tgkill", SYS_tgkill, 0, 0},
    {"mmap-MAP_NORESERVE", SYS_mmap, offsetof(struct seccomp_data, args[3]), MAP_NORESERVE},
    {"mmap-MAP_FIXED", SYS_mmap, offsetof(struct seccomp_data, args[3]), MAP_FIXED},
    {"mmap-hint", SYS_mmap, offsetof(struct seccomp_data, args[0]) + 4, UINT32_MAX}, /* an address above 4 GiB */
};

static void refuse(const struct refusal *which, int error)
{
    load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)which->number, 0, which->is_set != 0 ? 3 : 1);
    if (which->is_set != 0) load(which->half);
    if (which->is_set != 0) add(BPF_JMP | BPF_JSET | BPF_K, which->is_set, 0, 1);
    result(SECCOMP_RET_ERRNO | (uint32_t)error);
    result(SECCOMP_RET_ALLOW);
    install();
}

/* --- what the program does -------------------------------------------------------------------------------------- */

/* Blocks of all kinds come, change and go. */
static void work(uint32_t random, int rounds)
{
    static _Thread_local char *blocks[SLOTS];
    for (int round = 0; round < rounds; round++) {
        random = random * 1103515245 + 12345;
        char **slot = &blocks[(random >> 8) % SLOTS];
        const uint32_t draw = random >> 10;
        const size_t bytes = draw % 500 == 0 ? 3u << 20 : draw % 30 == 0 ? 1 + draw % 400000 : 1 + draw % 3000;
        char *block;
        if (draw % 5 == 0) {
            block = realloc(*slot, bytes);
            if (block == NULL) free(*slot);
        } else {
            free(*slot);
            block = draw % 7 == 0 ? calloc(1, bytes) : draw % 11 == 0 ? aligned_alloc(4096, bytes) : malloc(bytes);
        }
        *slot = block;
        atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
        if (block == NULL) atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
        else memset(block, 1, bytes);
    }
    for (int i = 0; i < SLOTS; i++) free(blocks[i]);
    memset(blocks, 0, sizeof blocks);
}

static void *thread_main(void *number)
{
    work((uint32_t)(uintptr_t)number, ROUNDS / 5);
    return NULL;
}

/* If the system refuses what libc needs for a thread, there is one less. */
static void threads(void)
{
    for (int round = 0; round < 3; round++) {
        pthread_t all[THREADS];
        uintptr_t count = 0;
        while (count < THREADS && pthread_create(&all[count], NULL, thread_main, (void *)(count + 1)) == 0) count++;
        while (count-- > 0) pthread_join(all[count], NULL);
    }
}

static void play(bool has_threads)
{
    if (has_threads) threads();
    work(7, ROUNDS);
}

/* True in the child, and where the scene has none. In the parent *status is how the child ended. */
static bool is_child(bool forks, int *status)
{
    const pid_t child = forks ? fork() : 0;
    if (child == 0) return true;
    if (waitpid(child, status, 0) != child) abort();
    return false;
}

static void say(const char *name, int error)
{
    char line[200];
    const int bytes =
        snprintf(line, sizeof line, "%s %d %u %u\n", name, error, atomic_load(&asked), atomic_load(&refused));
    if (write(STDOUT_FILENO, line, (size_t)bytes) != bytes) _exit(1);
}

static int refuse_all(bool has_threads)
{
    static const int errors[] = {EPERM, EACCES, EINVAL, ENOSYS, ENOMEM, EAGAIN};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (has_threads && refusals[i].number == SYS_futex) continue; /* libc ends a process to which it is refused */
        for (size_t j = 0; j < sizeof errors / sizeof *errors; j++) {
            int status;
            if (!is_child(true, &status)) {
                if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
                fprintf(stderr, "%s, error %d: status %#x\n", refusals[i].name, errors[j], (unsigned)status);
                return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            }
            free(malloc(1));
            refuse(&refusals[i], errors[j]);
            play(has_threads);
            say(refusals[i].name, errors[j]);
            _exit(0);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const bool has_threads = strcmp(argv[2], "threads") == 0, forks = strcmp(argv[2], "forked") == 0;
    free(malloc(1));
    if (forks) threads();
    atomic_store(&asked, 0);
    atomic_store(&refused, 0);
    if (strcmp(argv[1], "refuse") == 0) return refuse_all(has_threads);
    /* The next mappings lie where the heap has had none: its page map needs a part that it had not at start. */
    if (mmap(NULL, HOLE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) return 1;
    int status;
    if (!is_child(forks, &status)) {
        if (WIFSIGNALED(status)) fprintf(stderr, "killed by signal %d\n", WTERMSIG(status));
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    kill_others(has_threads, argv + 3);
    play(has_threads);
    say("kill", 0);
    exit(0); /* what the library does at the end is under the filter too */
}
