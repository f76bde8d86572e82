/* loading_program.c: what a program may do around its start and its loader, on any malloc that is preloaded or linked.
 * loading_check starts it in each way. usage: loading_program MODE [FILE]...
 *
 * Exit status 0: all held; 1: not, with a line on standard error; 2: the library cannot be had in this way, with the
 * loader's line; 77: it cannot be tried here, with the reason. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
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

#include "programs/loading_module.h"

extern char **environ;

enum { MIB = 1 << 20, STACK_BYTES = 16 << 10, THREADS = 10000, THREADS_AT_ONCE = 8, MODULES = 50 };

static _Noreturn void end(int status, const char *what, const char *detail)
{
    dprintf(STDERR_FILENO, "%s%s%s\n", what, detail == NULL ? "" : ": ", detail == NULL ? "" : detail);
    _exit(status);
}

static void check(bool holds, const char *what)
{
    if (!holds) end(1, what, NULL);
}

/* --- a malloc in use ------------------------------------------------------------------------------------------ */

struct calls {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
};

static void use_calls(const struct calls *calls)
{
    for (size_t size = 16; size < 3u << 20; size = size * 5 + 3) {
        unsigned char *block = calls->malloc(size), *zero = calls->calloc(size, 1);
        check(block != NULL && zero != NULL, "no memory");
        check(zero[0] == 0 && zero[size - 1] == 0, "a block of calloc is not zero");
        memset(block, 7, size);
        block = calls->realloc(block, size * 2);
        check(block != NULL && block[0] == 7 && block[size - 1] == 7, "realloc lost what a block held");
        calls->free(block);
        calls->free(zero);
    }
}

static void use(void)
{
    use_calls(&(struct calls){malloc, calloc, realloc, free});
}

static void *use_in_thread(void *unused)
{
    use();
    return unused;
}

/* Runs threads to their end; stack_bytes: 0 for the default. */
static void threads(int count, size_t stack_bytes, void *(*body)(void *))
{
    pthread_attr_t attributes;
    pthread_t ids[THREADS_AT_ONCE];
    pthread_attr_init(&attributes);
    if (stack_bytes != 0) check(pthread_attr_setstacksize(&attributes, stack_bytes) == 0, "no such stack size");
    while (count > 0) {
        int batch = count < THREADS_AT_ONCE ? count : THREADS_AT_ONCE;
        for (int i = 0; i < batch; i++) check(pthread_create(&ids[i], &attributes, body, NULL) == 0, "no thread");
        for (int i = 0; i < batch; i++) pthread_join(ids[i], NULL);
        count -= batch;
    }
    pthread_attr_destroy(&attributes);
}

/* --- before main ----------------------------------------------------------------------------------------------- */

static char *early[2];

static void before_constructors(void)
{
    early[0] = malloc(3000);
    if (early[0] != NULL) memset(early[0], 1, 3000);
    free(malloc(5 * MIB));
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_constructors;

__attribute__((constructor(101))) static void first_constructor(void)
{
    early[1] = calloc(1, 200000);
}

static void before_main(void)
{
    check(early[0] != NULL && early[1] != NULL && early[0][2999] == 1 && early[1][199999] == 0,
          "a block from before main");
    for (int i = 0; i < 2; i++) {
        early[i] = realloc(early[i], 400000);
        check(early[i] != NULL, "a block from before main cannot grow");
        free(early[i]);
    }
}

/* --- threads ---------------------------------------------------------------------------------------------------- */

static void *few_calls(void *unused)
{
    void *volatile blocks[20];
    for (size_t i = 0; i < 20; i++) blocks[i] = malloc(i * 100 + 1);
    for (size_t i = 0; i < 20; i++) free(blocks[i]);
    return unused;
}

static size_t resident_kib(void)
{
    char line[200];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    check(status != NULL, "no /proc/self/status");
    while (fgets(line, sizeof line, status) != NULL) sscanf(line, "VmRSS: %zu", &kib);
    fclose(status);
    return kib;
}

static void many_threads(void)
{
    threads(THREADS / 10, 0, few_calls);
    size_t before = resident_kib();
    threads(THREADS - THREADS / 10, 0, few_calls);
    size_t grown = resident_kib() - before;
    check((ptrdiff_t)grown < 8 << 10, "the last 9,000 of 10,000 threads left more than 8 MiB behind");
}

/* --- modules ---------------------------------------------------------------------------------------------------- */

static void *symbol(void *module, const char *name)
{
    void *address = dlsym(module, name);
    if (address == NULL) end(1, "dlsym", dlerror());
    return address;
}

/* Loads copies of a module with 64 bytes of static thread-local data each, until no other fits. Returns how many did. */
static int fill_static_tls(const char *file, int count)
{
    static char image[MIB];
    int from = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = read(from, image, sizeof image);
    close(from);
    check(bytes > 0, "cannot read the module");
    for (int i = 0; i < count; i++) {
        char path[64];
        int copy = memfd_create("module", MFD_CLOEXEC);
        check(write(copy, image, (size_t)bytes) == bytes, "cannot copy the module");
        snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
        if (dlopen(path, RTLD_NOW) == NULL) return i;
    }
    return count;
}

static struct calls loaded;

static void *use_loaded(void *unused)
{
    use_calls(&loaded);
    return unused;
}

/* A library that cannot be had by dlopen or dlmopen is a refusal with the loader's line. */
static void use_library(void *library)
{
    if (library == NULL) end(2, "refused", dlerror());
    loaded.malloc = (void *(*)(size_t))symbol(library, "malloc");
    loaded.calloc = (void *(*)(size_t, size_t))symbol(library, "calloc");
    loaded.realloc = (void *(*)(void *, size_t))symbol(library, "realloc");
    loaded.free = (void (*)(void *))symbol(library, "free");
    use_loaded(NULL);
    threads(20, 0, use_loaded);
    void *(*grow)(void *, size_t, size_t) = (void *(*)(void *, size_t, size_t))dlsym(library, "reallocarray");
    char *block = grow != NULL ? grow(memset(loaded.malloc(100), 7, 100), 100, 1000) : NULL;
    check(grow == NULL || (block != NULL && block[99] == 7), "the library's reallocarray of its own block");
    loaded.free(block);
}

/* A library in a namespace of its own has its own C library, which numbers thread-specific keys as this program's does,
 * while a thread has one array for the values of both. The values of this program must stay, if it leaves some free.
 * HAKMEM tries several keys, and keeps one of the 32 for which a thread has room. */
static void use_library_in_namespace(const char *file)
{
    enum { KEYS = 32, WITHOUT_VALUE = 20 };
    static char values[KEYS];
    pthread_key_t keys[KEYS];
    for (int i = 0; i < KEYS; i++) check(pthread_key_create(&keys[i], NULL) == 0, "no thread-specific key");
    for (int i = WITHOUT_VALUE; i < KEYS; i++) pthread_setspecific(keys[i], &values[i]);
    void *library = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
    use_library(library);
    for (int i = WITHOUT_VALUE; i < KEYS; i++)
        check(pthread_getspecific(keys[i]) == &values[i], "the value of a key of another namespace was changed");
    if (dlsym(library, "hak_version") == NULL) return;
    int (*key_create)(pthread_key_t *, void (*)(void *)) =
        (int (*)(pthread_key_t *, void (*)(void *)))symbol(library, "pthread_key_create");
    for (int i = 0; i < KEYS - 1; i++)
        check(key_create(&keys[i], NULL) == 0 && keys[i] < KEYS, "the library keeps more than one key");
}

/* The module's own pairs must match, and with `exchange` what crosses its border too. */
static void use_module(const char *file, bool exchange)
{
    void *module = dlopen(file, RTLD_NOW | RTLD_DEEPBIND);
    if (module == NULL) end(1, "dlopen", dlerror());
    module_pairs *pairs = (module_pairs *)symbol(module, "module_pairs_match");
    module_make *make = (module_make *)symbol(module, "module_text_make");
    module_drop *drop = (module_drop *)symbol(module, "module_text_drop");
    check(pairs(), "a module's own malloc and free");
    if (!exchange) return;
    for (int i = 0; i < 1000; i++) {
        free(make("from the module"));
        drop(strdup("to the module"));
    }
    dlclose(module);
}

/* --- the kernel refuses ------------------------------------------------------------------------------------------ */

enum { FILTERED_BYTES = 64 * MIB };

/* Denies a call, of mmap that of FILTERED_BYTES or more, and runs the program again under that filter. */
static void run_denied(char **argv, const char *name)
{
    static const struct {
        const char *name;
        uint32_t number;
    } calls[] = {{"getrandom", SYS_getrandom}, {"madvise", SYS_madvise}, {"mremap", SYS_mremap}, {"mmap", SYS_mmap}};
    uint32_t number = 0;
    bool known = false;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !known; i++)
        if ((known = strcmp(calls[i].name, name) == 0)) number = calls[i].number;
    check(known, "no such call");
    bool by_size = number == SYS_mmap;
    uint32_t length = offsetof(struct seccomp_data, args) + 8; /* little endian: the low word is first */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, by_size ? length + 4 : length),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, by_size ? 0 : UINT32_MAX, 2, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, length),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, by_size ? FILTERED_BYTES : 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (by_size ? ENOMEM : EPERM)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        end(77, "no seccomp filters here", strerror(errno));
    argv[1] = (char *)(by_size ? "denied-size" : "denied-call");
    execv("/proc/self/exe", argv);
    end(1, "exec", strerror(errno));
}

/* Fills the process's mappings, so that the kernel refuses another one and to split one. */
static void mappings_end(void)
{
    enum { PAGES = 140000 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *range = mmap(NULL, PAGES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(range != MAP_FAILED, "mmap");
    void *old[50];
    for (size_t i = 0; i < 50; i++) old[i] = malloc(40000 * i);
    size_t at = 1;
    while (at < PAGES && mprotect(range + at * page, page, PROT_READ) == 0) at += 2;
    if (at >= PAGES) end(77, "no limit on mappings (vm.max_map_count) below 140,000", NULL);
    for (size_t i = 0; i < 50; i++) free(old[i]); /* as much as can be given back; the rest is kept */
    void *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        errno = 0;
        blocks[i] = malloc(i % 4 == 0 ? 5 * MIB : i * 700);
        check(blocks[i] != NULL || errno == ENOMEM, "malloc without a mapping fails without ENOMEM");
    }
    for (size_t i = 0; i < 200; i++) free(blocks[i]);
    munmap(range, PAGES * page);
    use();
    threads(20, 0, use_in_thread);
}

/* --- children ----------------------------------------------------------------------------------------------------- */

static void ended_well(pid_t child, const char *what)
{
    int status = -1;
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, what);
}

static volatile bool is_over;

static void *use_until_over(void *unused)
{
    while (!is_over) use();
    return unused;
}

static void children(void)
{
    pthread_t busy[2];
    char *argv[] = {(char *)"/proc/self/exe", (char *)"plain", NULL};
    char command[4200], self[4096] = "";
    check(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "readlink");
    snprintf(command, sizeof command, "'%s' plain", self);
    for (int i = 0; i < 2; i++) check(pthread_create(&busy[i], NULL, use_until_over, NULL) == 0, "no thread");
    for (int i = 0; i < 10; i++) {
        pid_t child = -1;
        check(posix_spawn(&child, self, NULL, NULL, argv, environ) == 0, "posix_spawn fails");
        ended_well(child, "a child of posix_spawn");
        child = vfork();
        if (child == 0) {
            execv(self, argv);
            _exit(1);
        }
        ended_well(child, "a child of vfork");
        check(system(command) == 0, "a child of system");
    }
    is_over = true;
    for (int i = 0; i < 2; i++) pthread_join(busy[i], NULL);
    use();
}

static void say_ended(void)
{
    dprintf(STDOUT_FILENO, "ended\n");
}

/* The process then ends with the last of the others, by exit. */
static _Noreturn void main_ends(void)
{
    pthread_t thread;
    atexit(say_ended);
    for (int i = 0; i < 3; i++) check(pthread_create(&thread, NULL, use_in_thread, NULL) == 0, "no thread");
    pthread_exit(NULL);
}

static void closed_descriptors(void)
{
    use();
    threads(20, 0, use_in_thread);
    for (int i = 0; i < 3; i++)
        if (fcntl(i, F_GETFD) != -1) _exit(1); /* something was opened in their place */
}

/* ------------------------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "plain", *file = argc > 2 ? argv[2] : "", *second = argc > 3 ? argv[3] : "";
    before_main();
    if (strcmp(mode, "plain") == 0) use();
    else if (strcmp(mode, "threads") == 0) use(), threads(20, 0, use_in_thread);
    else if (strcmp(mode, "closed-descriptors") == 0) closed_descriptors();
    else if (strcmp(mode, "small-stacks") == 0) threads(100, STACK_BYTES, use_in_thread);
    else if (strcmp(mode, "many-threads") == 0) many_threads();
    else if (strcmp(mode, "children") == 0) children();
    else if (strcmp(mode, "main-ends") == 0) main_ends();
    else if (strcmp(mode, "mappings-end") == 0) mappings_end();
    else if (strcmp(mode, "deny") == 0) run_denied(argv, file);
    else if (strcmp(mode, "denied-call") == 0) use(), threads(20, 0, use_in_thread);
    else if (strcmp(mode, "denied-size") == 0) {
        use();
        threads(20, 0, use_in_thread);
        errno = 0;
        char *block = malloc(2 * FILTERED_BYTES);
        check(block != NULL || errno == ENOMEM, "a block that the kernel refuses is NULL without ENOMEM");
        if (block != NULL) block[0] = block[2 * FILTERED_BYTES - 1] = 1; /* by brk, perhaps */
        free(block);
    } else if (strcmp(mode, "dlopen") == 0) use_library(dlopen(file, RTLD_NOW));
    else if (strcmp(mode, "dlmopen") == 0) use_library_in_namespace(file);
    else if (strcmp(mode, "dlopen-tls-full") == 0) {
        check(fill_static_tls(file, MODULES) < MODULES, "there is still room for static thread-local data");
        use_library(dlopen(second, RTLD_NOW));
    } else if (strcmp(mode, "dlopen-tls-enlarged") == 0) {
        check(fill_static_tls(file, MODULES) == MODULES, "no room for static thread-local data");
        use_library(dlopen(second, RTLD_NOW));
    } else if (strcmp(mode, "deepbind") == 0) use_module(file, false);
    else if (strcmp(mode, "deepbind-exchange") == 0) use_module(file, true);
    else end(2, "no such mode", mode);
    return 0;
}
