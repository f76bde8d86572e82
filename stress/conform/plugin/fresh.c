/* Checks that need a process that has not allocated yet, or that ends by exit. usage: conform-fresh MODE LIBRARY Exits
 * with 0 and the last line "ok"; or with 1 and what was wrong; or with 77 and why it cannot tell.
 *
 * More than 400 lines: each mode must be the first thing in its process, so the modes share one program and nothing else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/watch/notice.h"

extern char **environ;

static const char *mode;
static const char *library;

static _Noreturn void say(int status, const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0) _exit(2);
    _exit(status);
}

static _Noreturn void wrong(const char *text)
{
    say(1, text);
}

typedef void *alloc_function(size_t size_bytes);
typedef void free_function(void *block);

static void exercise_with(alloc_function *alloc, free_function *give_back)
{
    static const size_t sizes[] = {1, 16, 100, 1000, 5000, 40000, 300000, 3 << 20, 40 << 20};
    unsigned char *blocks[9];
    for (int i = 0; i < 9; i++) {
        blocks[i] = alloc(sizes[i]);
        if (blocks[i] == NULL) wrong("malloc gave no memory");
        blocks[i][0] = blocks[i][sizes[i] - 1] = (unsigned char)i;
    }
    for (int i = 0; i < 9; i++) {
        if (blocks[i][0] != i || blocks[i][sizes[i] - 1] != i) wrong("a block changed");
        give_back(blocks[i]);
    }
}

static void exercise(void)
{
    exercise_with(malloc, free);
}

static void *exercise_thread(void *unused)
{
    (void)unused;
    exercise();
    return NULL;
}

static void in_thread(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0 || pthread_join(thread, NULL) != 0) wrong("no thread");
}

/* --- before main, before the constructors of the libraries ----------------------------------------------------- */

static int handler_runs;

static void handler(void)
{
    handler_runs++;
    exercise();
}

static void nothing(void) {}

static void before_all(int argc, char **argv, char **env)
{
    (void)env;
    static char signal_stack[64 << 10];
    void *notice = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, NOTICE_DESCRIPTOR, 0);
    if (notice != MAP_FAILED) crash_notice_install(notice, signal_stack, sizeof signal_stack);
    mode = argc > 1 ? argv[1] : "";
    library = argc > 2 ? argv[2] : "";
    if (strcmp(mode, "atfork-first") == 0) pthread_atfork(handler, handler, handler);
    if (strcmp(mode, "no-environ") == 0) {
        environ = NULL; /* until libc sets it again; main removes it for good */
        exercise();
    }
    if (strcmp(mode, "huge-first") == 0) {
        volatile char *block = malloc((size_t)300 << 20);
        if (block == NULL) wrong("the first malloc, of 300 MiB, failed");
        block[0] = block[((size_t)300 << 20) - 1] = 1;
        free((void *)block);
    }
    if (strcmp(mode, "atexit-first") == 0)
        for (int i = 0; i < 100; i++) /* libc has room for 32 without malloc */
            if (atexit(nothing) != 0) wrong("atexit failed");
    if (strcmp(mode, "keys-first") == 0)
        for (int i = 0; i < 40; i++) {
            pthread_key_t key;
            pthread_key_create(&key, NULL);
        }
    if (strcmp(mode, "dlsym-first") == 0)
        for (int i = 0; i < 3; i++)
            if (dlsym(RTLD_NEXT, "no_such_symbol_anywhere") != NULL || dlerror() == NULL) wrong("dlsym found nothing");
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = before_all;

/* --- modes ---------------------------------------------------------------------------------------------------- */

static void plain(void)
{
    exercise();
    for (int i = 0; i < 5; i++) in_thread(exercise_thread);
    exercise();
}

static void wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue; /* if it hangs, the runner finds it */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) raise(SIGKILL); /* from outside: the runner tries again */
    if (WIFSIGNALED(status)) wrong("a child was ended by a signal");
    if (WEXITSTATUS(status) != 0) _exit(1); /* the child has said what was wrong */
}

static void atfork_first(void)
{
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            exercise();
            in_thread(exercise_thread);
            _exit(0);
        }
        wait_for(child);
    }
    if (handler_runs != 6) wrong("the handlers did not run");
}

static void *late_block;

__attribute__((destructor(101))) static void very_late(void)
{
    if (strcmp(mode, "static-destructors") != 0) return;
    free(late_block);
    exercise();
    say(0, "ok");
}

__attribute__((destructor(60000))) static void late(void)
{
    if (strcmp(mode, "static-destructors") != 0) return;
    void *block = malloc(2000);
    free(late_block);
    late_block = block;
}

static void at_exit(void)
{
    void *block = realloc(late_block, 100000);
    if (block == NULL) wrong("realloc failed in an atexit handler");
    late_block = block;
}

static _Noreturn void static_destructors(void)
{
    atexit(at_exit);
    late_block = malloc(100);
    in_thread(exercise_thread);
    exit(0); /* very_late prints ok */
}

/* Of each worker: how often it has allocated, or started a thread that does. */
enum { WORKERS = 3, FOR_EVER = -1 };
static unsigned long worked[WORKERS];

static unsigned long work_of(int worker)
{
    return __atomic_load_n(&worked[worker], __ATOMIC_RELAXED);
}

static void *allocate_for_ever(void *counter)
{
    void *blocks[100] = {NULL};
    for (unsigned i = 0;; i++) {
        free(blocks[i % 100]);
        blocks[i % 100] = malloc(i % 3000 == 0 ? 3 << 20 : i % 5000);
        __atomic_fetch_add((unsigned long *)counter, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *start_and_end(void *counter)
{
    for (;;) {
        in_thread(exercise_thread);
        __atomic_fetch_add((unsigned long *)counter, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Until each worker has done `count` more, or `ms_max` milliseconds have passed. */
static void let_work(unsigned long count, int ms_max)
{
    unsigned long from[WORKERS];
    for (int n = 0; n < WORKERS; n++) from[n] = work_of(n);
    for (int n = 0, ms = 0; n < WORKERS && ms != ms_max; ms++) {
        while (n < WORKERS && work_of(n) - from[n] >= count) n++;
        if (n < WORKERS) nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* exit flushes streams after the destructors of all libraries, the malloc's too. So the workers meet a malloc that has
 * ended, however the system schedules them. */
static ssize_t flush_slowly(void *unused, const char *text, size_t length)
{
    (void)unused;
    (void)text;
    let_work(5, 500); /* a malloc may stop them */
    return (ssize_t)length;
}

static void exit_with_workers(void)
{
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            FILE *slow = fopencookie(NULL, "w", (cookie_io_functions_t){.write = flush_slowly});
            if (slow == NULL || fputs("flushed at exit", slow) < 0) wrong("no stream");
            for (int n = 0; n < WORKERS; n++)
                if (pthread_create(&thread, NULL, n == 0 ? start_and_end : allocate_for_ever, &worked[n]) != 0)
                    wrong("no thread");
            let_work((unsigned long)i + 1, FOR_EVER); /* if they hang, the runner finds it */
            if (i % 2 == 0) exit(0);
            _exit(0);
        }
        wait_for(child);
    }
}

/* --- the library, loaded by dlopen ---------------------------------------------------------------------------- */

static alloc_function *library_malloc;
static free_function *library_free;

static void *library_thread(void *unused)
{
    (void)unused;
    exercise_with(library_malloc, library_free);
    return NULL;
}

static void *load(void)
{
    void *module = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) wrong(dlerror());
    *(void **)&library_malloc = dlsym(module, "malloc");
    *(void **)&library_free = dlsym(module, "free");
    if (library_malloc == NULL || library_free == NULL) wrong("dlsym found no malloc and free in the library");
    return module;
}

/* Runs again without the library in LD_PRELOAD. */
static void without_preload(char **argv)
{
    if (getenv("LD_PRELOAD") == NULL) return;
    unsetenv("LD_PRELOAD");
    execv("/proc/self/exe", argv);
    wrong("cannot start again");
}

static void dlopen_library(char **argv)
{
    without_preload(argv);
    load();
    exercise_with(library_malloc, library_free);
    for (int i = 0; i < 5; i++) in_thread(library_thread);
}

static pthread_barrier_t barrier;

static void *library_thread_at_barrier(void *unused)
{
    (void)unused;
    exercise_with(library_malloc, library_free);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* after this the library is closed */
    return NULL;
}

static void unload(char **argv)
{
    without_preload(argv);
    /* If the library cannot be loaded in this way, that is another check's finding. */
    void *module = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) say(77, dlerror());
    dlclose(module);
    module = load();
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&thread, NULL, library_thread_at_barrier, NULL) != 0) wrong("no thread");
    pthread_barrier_wait(&barrier);
    dlclose(module);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL); /* destructors that are still registered now point nowhere */
}

/* A module of plugin/, beside this program. */
static const char *path_of(const char *name)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    while (length > 0 && path[length - 1] != '/') length--;
    strcpy(path + (length > 0 ? length : 0), name);
    return path;
}

/* --- a namespace of its own, with a C library of its own -------------------------------------------------------- */

static const char *(*keys_use)(void);

static void *keys_thread(void *unused)
{
    (void)unused;
    exercise();
    const char *fault = keys_use();
    if (fault != NULL) wrong(fault);
    exercise();
    return NULL;
}

static void namespaces(void)
{
    exercise();
    void *module = dlmopen(LM_ID_NEWLM, path_of("libconform-keys.so"), RTLD_NOW);
    if (module == NULL) say(77, dlerror());
    const char *(*keys_make)(void);
    *(void **)&keys_make = dlsym(module, "conform_keys_make");
    *(void **)&keys_use = dlsym(module, "conform_keys_use");
    if (keys_make == NULL || keys_use == NULL) wrong("dlsym found nothing in libconform-keys.so");
    const char *fault = keys_make();
    if (fault != NULL) wrong(fault);
    for (int i = 0; i < 5; i++) in_thread(keys_thread);
    keys_thread(NULL);
    /* Loads a second copy of the library beside the first, if that is possible. */
    module = dlmopen(LM_ID_NEWLM, library, RTLD_NOW);
    if (module != NULL) {
        *(void **)&library_malloc = dlsym(module, "malloc");
        *(void **)&library_free = dlsym(module, "free");
        for (int i = 0; i < 5; i++) in_thread(library_thread);
        library_thread(NULL);
    }
    for (int i = 0; i < 5; i++) in_thread(keys_thread);
    exercise();
}

/* --- a module that binds its own operators ---------------------------------------------------------------------- */

typedef void *aligned_function(size_t size_bytes, size_t align_bytes);
typedef void sized_function(void *block, size_t size_bytes);

static void *found(void *module, const char *name)
{
    void *symbol = dlsym(module, name);
    if (symbol == NULL && module == RTLD_DEFAULT) say(77, "the library does not provide the operators new and delete");
    if (symbol == NULL) wrong("dlsym found nothing in libconform-own_new.so");
    return symbol;
}

static void new_bound_elsewhere(void)
{
    alloc_function *new, *new_array, *own_new, *own_new_array;
    free_function *delete, *delete_array, *own_delete, *own_delete_array;
    aligned_function *own_new_aligned;
    sized_function *delete_sized, *delete_aligned;
    *(void **)&new = found(RTLD_DEFAULT, "_Znwm");
    *(void **)&new_array = found(RTLD_DEFAULT, "_Znam");
    *(void **)&delete = found(RTLD_DEFAULT, "_ZdlPv");
    *(void **)&delete_array = found(RTLD_DEFAULT, "_ZdaPv");
    *(void **)&delete_sized = found(RTLD_DEFAULT, "_ZdlPvm");
    *(void **)&delete_aligned = found(RTLD_DEFAULT, "_ZdlPvSt11align_val_t");
    void *module = dlopen(path_of("libconform-own_new.so"), RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) wrong(dlerror());
    *(void **)&own_new = found(module, "conform_own_new");
    *(void **)&own_new_array = found(module, "conform_own_new_array");
    *(void **)&own_new_aligned = found(module, "conform_own_new_aligned");
    *(void **)&own_delete = found(module, "conform_own_delete");
    *(void **)&own_delete_array = found(module, "conform_own_delete_array");
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        delete (own_new(size));
        delete_array(own_new_array(size));
        delete_sized(own_new(size), size);
        delete_aligned(own_new_aligned(size, 64), 64);
        own_delete(new (size));
        own_delete_array(new_array(size));
        delete (new (size));
        delete_array(new_array(size));
    }
}

/* --- limits that the process sets itself, when the malloc has reserved what it wants ------------------------------ */

enum { MIB = 1 << 20, LIMIT_MIB = 1024, LOCKED_MIB = 96 };

/* The program, its libraries and the stack of a thread; and the 64 MiB that a malloc may take for itself. */
enum { LEAST_MIB = LIMIT_MIB - 24 - 64 };

static void limit(int resource, size_t limit_mib)
{
    const struct rlimit lowered = {limit_mib * MIB, limit_mib * MIB};
    if (setrlimit(resource, &lowered) != 0) say(77, "the limit cannot be set");
}

/* How much of the limit malloc gives, in blocks that fill a MiB with what a malloc adds to them. */
static void take_what_is_left(const char *too_little)
{
    static void *blocks[LIMIT_MIB];
    volatile char *small = malloc(100);
    if (small == NULL) wrong("malloc(100) failed under a limit that is far away");
    in_thread(exercise_thread);
    int count = 0;
    while (count < LIMIT_MIB && (blocks[count] = malloc(MIB - 4096)) != NULL) count++;
    if (count < LEAST_MIB) wrong(too_little);
    for (int i = 0; i < count; i++) free(blocks[i]);
    free((void *)small);
    exercise();
}

static size_t address_space_kib(void)
{
    char line[200];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) sscanf(line, "VmSize: %zu", &kib);
    if (kib == 0) wrong("no VmSize in /proc/self/status");
    fclose(status);
    return kib;
}

static void limit_set_later(void)
{
    static const char *const too_little[] = {
        "of 1 GiB of address space (RLIMIT_AS) malloc gives less than all but 88 MiB",
        "of 1 GiB of data (RLIMIT_DATA) malloc gives less than all but 88 MiB",
    };
    static const int resources[] = {RLIMIT_AS, RLIMIT_DATA};
    exercise();
    in_thread(exercise_thread);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            limit(resources[i], LIMIT_MIB);
            take_what_is_left(too_little[i]);
            _exit(0);
        }
        wait_for(child);
    }
    pid_t child = fork();
    if (child == 0) {
        /* What mlockall counts. Whether it is granted is the user's and the system's affair. */
        if (address_space_kib() > LOCKED_MIB * 1024)
            wrong("the process needs more than 96 MiB (RLIMIT_MEMLOCK) for mlockall");
        mlockall(MCL_CURRENT | MCL_FUTURE);
        void *block = malloc(100);
        if (block == NULL) wrong("after mlockall malloc(100) fails");
        free(block);
        _exit(0);
    }
    wait_for(child);
}

/* A block of each thread stays. What else a thread had must serve the next. */
enum { LEAVERS = 600, LEAVER_BLOCKS = 64, LEAVER_BYTES = 20000 };

static void *leave_a_block(void *kept)
{
    static const char *const none = "malloc gives NULL, though what is live is 100 bytes of each thread so far";
    void *blocks[LEAVER_BLOCKS];
    for (int i = 0; i < LEAVER_BLOCKS; i++) {
        blocks[i] = malloc(LEAVER_BYTES);
        if (blocks[i] == NULL) wrong(none);
        memset(blocks[i], 1, LEAVER_BYTES);
    }
    *(void **)kept = malloc(100);
    if (*(void **)kept == NULL) wrong(none);
    for (int i = 0; i < LEAVER_BLOCKS; i++) free(blocks[i]);
    return NULL;
}

static void starts(void)
{
    void *block = malloc(1);
    if (block == NULL) wrong("malloc gives NULL");
    free(block);
}

static void threads_under_a_limit(void)
{
    static void *kept[LEAVERS];
    pthread_attr_t small; /* by default a stack is as large as ulimit -s, and that may be all of the space */
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, 256 << 10) != 0) say(77, "a thread's stack cannot be set");
    for (int i = 0; i < LEAVERS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, leave_a_block, &kept[i]) != 0) wrong("there is no room for another thread");
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < LEAVERS; i++) free(kept[i]);
}

/* Started by conform-secure. If the library obeys the environment, it prints something when it is loaded, or at
 * exit. */
static void secure_environment(void)
{
    if (getauxval(AT_SECURE) == 0) say(77, "the flag AT_SECURE is not set");
    int printed = memfd_create("printed", MFD_CLOEXEC);
    int error = dup(STDERR_FILENO);
    if (printed < 0 || error < 0 || dup2(printed, STDERR_FILENO) < 0) say(77, "standard error cannot be kept");
    /* If the library cannot be loaded in this way, that is another check's finding. */
    if (dlopen(library, RTLD_NOW | RTLD_LOCAL) == NULL) say(77, dlerror());
    load();
    exercise_with(library_malloc, library_free);
    pid_t child = fork();
    if (child == 0) exit(0);
    wait_for(child);
    dup2(error, STDERR_FILENO);
    char text[120], line[200];
    ssize_t length = pread(printed, text, sizeof text - 1, 0);
    if (length <= 0) return;
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    snprintf(line, sizeof line, "with privileges, options of the environment are obeyed; printed: %s", text);
    wrong(line);
}

int main(int argc, char **argv)
{
    if (argc != 3) say(2, "usage: conform-fresh MODE LIBRARY");
    if (strcmp(mode, "no-environ") == 0) environ = NULL;
    if (strcmp(mode, "static-destructors") == 0) static_destructors();
    else if (strcmp(mode, "atfork-first") == 0) atfork_first();
    else if (strcmp(mode, "exit-with-workers") == 0) exit_with_workers();
    else if (strcmp(mode, "dlopen-library") == 0) dlopen_library(argv);
    else if (strcmp(mode, "unload") == 0) unload(argv);
    else if (strcmp(mode, "secure-environment") == 0) secure_environment();
    else if (strcmp(mode, "dlmopen") == 0) namespaces();
    else if (strcmp(mode, "limit-set-later") == 0) limit_set_later();
    else if (strcmp(mode, "threads-under-a-limit") == 0) threads_under_a_limit();
    else if (strcmp(mode, "starts") == 0) starts();
    else if (strcmp(mode, "new-bound-elsewhere") == 0) new_bound_elsewhere();
    else plain();
    if (strcmp(mode, "destructors-after-the-library") == 0) exit(0); /* late.c says ok */
    say(0, "ok");
}
