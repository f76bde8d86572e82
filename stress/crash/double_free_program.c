/* double_free_program.c: frees blocks twice, in every order, and watches that no process hangs.
 *
 *   double-free-program release|validate [--whole] [--every N] [--jobs N] [--case N]
 *
 * A case is a kind of block, 1 to 8 blocks of it, 2 to 4 frees of which at least one is a double free, the threads that
 * free, and what the program does next. Each case runs in a separate child, with the library preloaded. With `release`
 * it may continue to its end, or be ended by SIGSEGV, SIGBUS or SIGABRT with a crash record; with `validate` a failfast
 * report must end it. A child that uses CPU_SECONDS of the processor, or WALL_SECONDS of time, has hung.
 *
 * Orders of frees that differ only in which blocks they name are tried once, each at a place drawn by the case's
 * number.
 * --whole tries every choice of blocks; --every N tries one case in N. --case runs one case without a child.
 *
 * More than 400 lines: parent and child share the description of a case; each part has its heading. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem/crash.h"
#include "hakmem/hakmem.h"
#include "hakmem/record.h"

/* Weak: nothing defines them until the library is preloaded. */
#pragma weak hak_purge
#pragma weak hak_crash_handler_install

enum {
    BLOCKS_MAX = 8,
    FREES_MAX = 4,
    CPU_SECONDS = 2,
    WALL_SECONDS = 60,
    JOBS_MAX = 16,
    SHOWN_MAX = 20, /* bad cases printed by a job */
    CHURN_BLOCKS_MAX = 3000, /* more than a thread caches of a class at first */
    CHURN_BLOCKS_MIN = 4,
    CHURN_BYTES = 1 << 20,
    BURST_BYTES = 9 << 19, /* a heap that frees this much trims its slabs */
    BURST_BLOCKS_MAX = BURST_BYTES / 16,
    STDERR_BYTES_MAX = 4096,
};

/* --- the cases --------------------------------------------------------------------------------------------- */

static const struct kind {
    size_t size_bytes, align_bytes; /* 0: malloc */
} kinds[] = {
    {16, 0},        /* the smallest class */
    {64, 0},        /* a slab of one page */
    {1024, 0},      /* the last of the linear classes, coloured */
    {256, 256},     /* a class for aligned blocks */
    {4096, 0},      /* one block per page of the system */
    {10240, 0},     /* a slab of 4 pages */
    {32768, 0},     /* a slab of 8 pages */
    {100000, 0},    /* a run */
    {2000, 65536},  /* an aligned run */
    {3 << 20, 0},   /* a huge block */
    {3 << 20, 8 << 20},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

enum way {
    WAY_OWN,              /* the owner frees */
    WAY_REPEATS_ELSEWHERE, /* another thread, which has a heap, makes the double frees */
    WAY_FIRST_ELSEWHERE,  /* the other thread makes the first free of each block, the owner the double frees */
    WAY_ELSEWHERE,        /* the other thread makes all frees */
    WAY_HEAPLESS,         /* the same, but the other thread has no heap */
    WAY_TWO,              /* the owner and the other thread take turns */
    WAYS
};

enum work { WORK_CHURN, WORK_PURGE, WORK_PEERS, WORK_FORK, WORKS, WORK_BURST = WORKS, FIRST_WORKS };

struct test_case {
    unsigned long number;
    struct kind kind;
    unsigned block_count, free_count;
    unsigned frees[FREES_MAX]; /* indexes of blocks */
    enum way way;
    enum work first_work;
    bool writes; /* whether it writes to the blocks that it allocates next */
};

/* --- one case, in the child -------------------------------------------------------------------------------- */

/* The child's child, if that ended the case. */
struct forked {
    pid_t process; /* 0: the child itself ended the case */
    int status;
};

static struct forked *forked; /* shared with the job's children */
static void *held[BURST_BLOCKS_MAX];

static void *allocate(const struct test_case *test)
{
    const struct kind *kind = &test->kind;
    if (kind->align_bytes == 0) return malloc(kind->size_bytes);
    void *block = NULL;
    return posix_memalign(&block, kind->align_bytes, kind->size_bytes) == 0 ? block : NULL;
}

static sem_t go, done;
static void (*task)(const struct test_case *, size_t); /* NULL: the thread ends */
static const struct test_case *task_case;
static size_t task_argument;
static pthread_t helper;

static void *helper_run(void *unused)
{
    (void)unused;
    for (;;) {
        while (sem_wait(&go) != 0) continue;
        if (task == NULL) return NULL;
        task(task_case, task_argument);
        sem_post(&done);
    }
}

static void helper_do(void (*new_task)(const struct test_case *, size_t), const struct test_case *test, size_t argument)
{
    task = new_task;
    task_case = test;
    task_argument = argument;
    sem_post(&go);
    if (new_task == NULL) {
        pthread_join(helper, NULL);
    } else {
        while (sem_wait(&done) != 0) continue;
    }
}

static void helper_start(void)
{
    if (pthread_create(&helper, NULL, helper_run, NULL) != 0) _exit(3);
}

/* Gives the calling thread a heap. */
static void warm_up(const struct test_case *test, size_t unused)
{
    (void)test;
    (void)unused;
    void *volatile block = malloc(40);
    free(block);
}

static void *blocks[BLOCKS_MAX];

static void free_one(const struct test_case *test, size_t index)
{
    (void)test;
    free(blocks[index]);
}

static bool is_elsewhere(const struct test_case *test, unsigned step)
{
    bool repeats = false;
    for (unsigned i = 0; i < step; i++) repeats = repeats || test->frees[i] == test->frees[step];
    switch (test->way) {
    case WAY_REPEATS_ELSEWHERE: return repeats;
    case WAY_FIRST_ELSEWHERE: return !repeats;
    case WAY_ELSEWHERE:
    case WAY_HEAPLESS: return true;
    case WAY_TWO: return step % 2 == 1;
    default: return false;
    }
}

static size_t churn_count(const struct test_case *test, size_t share)
{
    size_t count = CHURN_BYTES / test->kind.size_bytes;
    if (count > CHURN_BLOCKS_MAX) count = CHURN_BLOCKS_MAX;
    count /= share;
    return count < CHURN_BLOCKS_MIN ? CHURN_BLOCKS_MIN : count;
}

static void take(const struct test_case *test, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        held[i] = allocate(test);
        if (test->writes && held[i] != NULL) memset(held[i], 0x5a, 16);
    }
}

static void give(const struct test_case *test, size_t count)
{
    (void)test;
    for (size_t i = 0; i < count; i++) free(held[i]);
}

static void churn(const struct test_case *test)
{
    size_t count = churn_count(test, 1);
    take(test, count);
    give(test, count);
}

/* The other thread frees this thread's blocks, and this one frees the other's; then the other ends, and a new thread
 * takes its heap. */
static void peers(const struct test_case *test)
{
    size_t count = churn_count(test, 4);
    take(test, count);
    helper_do(give, test, count);
    helper_do(take, test, count);
    give(test, count);
    churn(test);
    helper_do(NULL, test, 0);
    helper_start();
    helper_do(take, test, count);
    helper_do(give, test, count);
}

/* The child's child continues the case; its end is the end of the case. */
static void work_in_fork(const struct test_case *test)
{
    pid_t process = fork();
    if (process < 0) _exit(3);
    if (process == 0) {
        churn(test);
        hak_purge();
        churn(test);
        _exit(0);
    }
    int status;
    while (waitpid(process, &status, 0) < 0) continue;
    if (status == 0) return;
    *forked = (struct forked){process, status};
    _exit(0);
}

static void burst(const struct test_case *test)
{
    size_t count = BURST_BYTES / test->kind.size_bytes;
    take(test, count);
    give(test, count);
    churn(test);
}

static void work(const struct test_case *test, enum work what)
{
    if (what == WORK_CHURN) churn(test);
    if (what == WORK_PURGE) hak_purge();
    if (what == WORK_PEERS) peers(test);
    if (what == WORK_FORK) work_in_fork(test);
    if (what == WORK_BURST) burst(test);
}

static void run_case(const struct test_case *test)
{
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    warm_up(test, 0);
    helper_start();
    if (test->way != WAY_HEAPLESS) helper_do(warm_up, test, 0);
    for (unsigned i = 0; i < test->block_count; i++)
        if ((blocks[i] = allocate(test)) == NULL) _exit(3);
    for (unsigned step = 0; step < test->free_count; step++) {
        if (is_elsewhere(test, step)) {
            helper_do(free_one, test, test->frees[step]);
        } else {
            free_one(test, test->frees[step]);
        }
    }
    work(test, test->first_work);
    for (unsigned i = 1; i <= WORKS; i++) work(test, (test->first_work + i) % WORKS);
    helper_do(NULL, test, 0);
    churn(test);
    exit(0);
}

/* --- the judge, in the parent --------------------------------------------------------------------------------- */

struct counts {
    _Atomic(unsigned long) cases, continued, recorded, named, unrecorded, hung, seen, missed;
};

static struct counts *counts; /* shared by all jobs; counts that order nothing */

struct job {
    bool validate;
    char directory[4096]; /* of the records */
    int error_file; /* the children's standard error */
    char error[STDERR_BYTES_MAX + 1];
    unsigned shown;
};

/* Whether the record's suspect has a class and a text. */
static bool record_names_list(const unsigned char *bytes, size_t size_bytes)
{
    bool has_class = false, has_text = false;
    for (size_t at = RECORD_HEAD_BYTES; at + RECORD_FIELD_HEAD_BYTES <= size_bytes;) {
        uint32_t head[2];
        memcpy(head, bytes + at, sizeof head);
        has_class = has_class || head[0] == RECORD_suspect_class;
        has_text = has_text || (head[0] == RECORD_suspect_text && head[1] > 0);
        at += RECORD_FIELD_HEAD_BYTES + head[1];
    }
    return has_class && has_text;
}

/* Reads the process's record, and removes it. False: there is none, or it is incomplete. */
static bool record_take(const struct job *job, pid_t process, bool *names_list)
{
    static unsigned char bytes[RECORD_BYTES_MAX];
    char prefix[64], path[sizeof job->directory + 300];
    size_t size_bytes = 0;
    snprintf(prefix, sizeof prefix, "hakmem-%d-", (int)process);
    DIR *listing = opendir(job->directory);
    if (listing == NULL) return false;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", job->directory, entry->d_name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = file < 0 ? 0 : read(file, bytes, sizeof bytes);
        if (file >= 0) close(file);
        unlink(path);
        if (strstr(entry->d_name, ".tmp") == NULL && got > 0) size_bytes = (size_t)got;
    }
    closedir(listing);
    if (size_bytes < RECORD_HEAD_BYTES || memcmp(bytes, RECORD_MAGIC, RECORD_MAGIC_BYTES) != 0) return false;
    *names_list = record_names_list(bytes, size_bytes);
    return true;
}

static void show(struct job *job, const struct test_case *test, const char *what, int status)
{
    if (job->shown++ >= SHOWN_MAX) return;
    fprintf(stderr, "%s: case %lu (status 0x%x): %u blocks of %zu bytes, aligned to %zu; frees", what, test->number,
            (unsigned)status, test->block_count, test->kind.size_bytes, test->kind.align_bytes);
    for (unsigned i = 0; i < test->free_count; i++) fprintf(stderr, " %u", test->frees[i]);
    fprintf(stderr, "; way %d, first work %d%s\n%s", (int)test->way, (int)test->first_work,
            test->writes ? ", writes" : "", job->error);
}

static void judge(struct job *job, const struct test_case *test, pid_t process, int status)
{
    ssize_t got = pread(job->error_file, job->error, STDERR_BYTES_MAX, 0);
    job->error[got > 0 ? got : 0] = '\0';
    bool names_list = false, is_crash = false;
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        is_crash = number == SIGSEGV || number == SIGBUS || number == SIGABRT;
    }
    bool has_record = is_crash && record_take(job, process, &names_list);
    bool is_broken = strstr(job->error, "hakmem: broken: ") != NULL;
    if (job->validate) {
        bool seen = is_crash && strstr(job->error, "hakmem: failfast: ") != NULL;
        atomic_fetch_add(seen ? &counts->seen : &counts->missed, 1);
        if (!seen) show(job, test, "not seen", status);
    } else if (status == 0) {
        atomic_fetch_add(&counts->continued, 1);
    } else if (!is_crash) {
        atomic_fetch_add(&counts->hung, 1);
        show(job, test, "hung", status);
    } else if (!has_record || (is_broken && !names_list)) {
        atomic_fetch_add(&counts->unrecorded, 1);
        show(job, test, has_record ? "the record names no list" : "no record", status);
    } else {
        atomic_fetch_add(&counts->recorded, 1);
        if (is_broken) atomic_fetch_add(&counts->named, 1);
    }
    atomic_fetch_add(&counts->cases, 1);
}

static void try_case(struct job *job, const struct test_case *test)
{
    if (ftruncate(job->error_file, 0) != 0 || lseek(job->error_file, 0, SEEK_SET) != 0) _exit(4);
    *forked = (struct forked){0, 0};
    pid_t process = fork();
    if (process < 0) _exit(4);
    if (process == 0) {
        struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS + 1}, core = {0, 0};
        setrlimit(RLIMIT_CPU, &cpu);
        setrlimit(RLIMIT_CORE, &core);
        dup2(job->error_file, STDERR_FILENO);
        alarm(WALL_SECONDS);
        run_case(test);
    }
    int status;
    while (waitpid(process, &status, 0) < 0)
        if (errno != EINTR) _exit(4);
    if (forked->process != 0 && status == 0) {
        process = forked->process;
        status = forked->status;
    }
    judge(job, test, process, status);
}

/* --- the enumeration ------------------------------------------------------------------------------------------ */

static uint64_t mixed(uint64_t number)
{
    number = (number + 1) * 0x9e3779b97f4a7c15u;
    number ^= number >> 29;
    number *= 0xbf58476d1ce4e5b9u;
    return number ^ number >> 32;
}

/* Frees that differ only in the names of blocks count as one case: the first block named is 0, the next new one 1. */
static bool is_first_of_its_names(const struct test_case *test)
{
    unsigned named = 0;
    for (unsigned i = 0; i < test->free_count; i++) {
        if (test->frees[i] > named) return false;
        if (test->frees[i] == named) named++;
    }
    return true;
}

static bool has_double_free(const struct test_case *test)
{
    for (unsigned i = 0; i < test->free_count; i++)
        for (unsigned j = 0; j < i; j++)
            if (test->frees[i] == test->frees[j]) return true;
    return false;
}

/* Renames the blocks, by a rotation and perhaps a mirror. */
static void rename_blocks(struct test_case *test, uint64_t drawn)
{
    for (unsigned i = 0; i < test->free_count; i++) {
        unsigned block = (test->frees[i] + (unsigned)(drawn >> 8) % test->block_count) % test->block_count;
        test->frees[i] = drawn % 2 == 0 ? block : test->block_count - 1 - block;
    }
}

struct walk {
    bool whole;
    unsigned long number, part, parts, every, only; /* only: ULONG_MAX: all */
    struct job *job;
};

/* Every kind and way of one order of frees. */
static void walk_order(struct walk *walk, const struct test_case *order)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (unsigned way = 0; way < WAYS; way++) {
            unsigned long number = walk->number++;
            uint64_t drawn = mixed(number);
            bool is_mine = number % walk->parts == walk->part && (drawn >> 44) % walk->every == 0;
            if (walk->only != ~0ul ? walk->only != number : !is_mine) continue;
            struct test_case test = *order;
            test.number = number;
            test.kind = kinds[kind];
            test.way = (enum way)way;
            test.first_work = (enum work)((drawn >> 32) % FIRST_WORKS);
            test.writes = (drawn >> 40) % 4 == 0;
            if (!walk->whole) rename_blocks(&test, drawn);
            if (walk->only == number) run_case(&test);
            try_case(walk->job, &test);
        }
    }
}

static void walk_all(struct walk *walk)
{
    struct test_case order = {.number = 0};
    for (order.block_count = 1; order.block_count <= BLOCKS_MAX; order.block_count++) {
        for (order.free_count = 2; order.free_count <= FREES_MAX; order.free_count++) {
            memset(order.frees, 0, sizeof order.frees);
            unsigned digit;
            do {
                if (has_double_free(&order) && (walk->whole || is_first_of_its_names(&order))) walk_order(walk, &order);
                for (digit = 0; digit < order.free_count && ++order.frees[digit] == order.block_count; digit++)
                    order.frees[digit] = 0;
            } while (digit < order.free_count);
        }
    }
}

static void *map_shared(size_t size_bytes)
{
    void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(4);
    return memory;
}

static void run_job(struct walk *walk)
{
    forked = map_shared(sizeof *forked);
    walk->job->error_file = memfd_create("stderr", MFD_CLOEXEC);
    if (walk->job->error_file < 0) _exit(4);
    walk_all(walk);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct job job = {.validate = argc > 1 && strcmp(argv[1], "validate") == 0};
    struct walk walk = {.parts = 2, .every = 1, .only = ~0ul, .job = &job};
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--whole") == 0) {
            walk.whole = true;
        } else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc) {
            walk.every = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc) {
            walk.parts = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc) {
            walk.only = strtoul(argv[++i], NULL, 10);
        } else {
            walk.parts = 0;
        }
    }
    bool is_release = argc > 1 && strcmp(argv[1], "release") == 0;
    if (is_release == job.validate || walk.every == 0 || walk.parts == 0 || walk.parts > JOBS_MAX) {
        fprintf(stderr, "usage: double-free-program release|validate [--whole] [--every N] [--jobs N] [--case N]\n");
        return 2;
    }
    if (hak_crash_handler_install == NULL || hak_purge == NULL) {
        fprintf(stderr, "double-free-program: preload libhakmem\n");
        return 2;
    }
    counts = map_shared(sizeof *counts);
    forked = map_shared(sizeof *forked);
    const char *above = getenv("TMPDIR");
    snprintf(job.directory, sizeof job.directory, "%s/hakmem-double-free.XXXXXX", above != NULL ? above : "/tmp");
    if (mkdtemp(job.directory) == NULL || hak_crash_handler_install(job.directory) != 0) return 4;
    if (walk.only != ~0ul) walk_all(&walk); /* does not return if there is such a case */
    pid_t jobs[JOBS_MAX];
    for (walk.part = 0; walk.part < walk.parts; walk.part++)
        if ((jobs[walk.part] = fork()) == 0) run_job(&walk);
    bool failed = false;
    for (unsigned long part = 0; part < walk.parts; part++) {
        int status;
        failed = waitpid(jobs[part], &status, 0) != jobs[part] || status != 0 || failed;
    }
    if (job.validate) {
        printf("%lu cases: %lu seen, %lu not seen\n", counts->cases, counts->seen, counts->missed);
    } else {
        printf("%lu cases: %lu continued, %lu ended with a record (%lu by a bound), %lu without one, %lu hung\n",
               counts->cases, counts->continued, counts->recorded, counts->named, counts->unrecorded, counts->hung);
    }
    if (rmdir(job.directory) != 0) printf("%s: a record is left there, or was begun\n", job.directory);
    return failed || counts->cases == 0 || counts->missed + counts->unrecorded + counts->hung > 0;
}
