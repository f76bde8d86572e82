/* filter_preload.c: preloaded beside the library, forbids system calls to the code of the library only (seccomp knows where a
 * call comes from). When the program makes its first thread, so after the start of the heap, and for all its threads: a call
 * of the library's that FILTER_CALLS does not list ends the process. So a harness of the suite, which itself asks for more,
 * holds the table of docs/internals.md; filter_check runs it. A program without the library runs as it is. */
#include <dlfcn.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CODE_MAX = 64 };

static struct sock_filter code[CODE_MAX];
static unsigned short length;
static uintptr_t start, end; /* the library's code */

static void add(uint16_t what, uint32_t value, uint8_t if_true, uint8_t if_false)
{
    if (length == CODE_MAX) abort();
    code[length++] = (struct sock_filter){what, if_true, if_false, value};
}

/* A value of half a word. If the comparison holds (or not, as `wanted` says) the call passes. */
static void pass_if(uint16_t compare, uint32_t value, int wanted)
{
    add(BPF_JMP | compare | BPF_K, value, wanted ? 0 : 1, wanted ? 1 : 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void load(size_t offset)
{
    add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static int visit(struct dl_phdr_info *info, size_t size_bytes, void *context)
{
    (void)size_bytes, (void)context;
    if (strstr(info->dlpi_name, "/libhakmem") == NULL) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || (info->dlpi_phdr[i].p_flags & PF_X) == 0) continue;
        start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        end = start + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static const struct {
    const char *name;
    uint32_t number;
} named[] = {
    {"mmap", SYS_mmap},       {"munmap", SYS_munmap},        {"mprotect", SYS_mprotect}, {"mremap", SYS_mremap},
    {"madvise", SYS_madvise}, {"futex", SYS_futex},          {"getpid", SYS_getpid},     {"gettid", SYS_gettid},
    {"tgkill", SYS_tgkill},   {"newfstatat", SYS_newfstatat}};

/* `calls` is a list with a comma behind each. */
static void filter(const char *calls)
{
    const size_t address = offsetof(struct seccomp_data, instruction_pointer);
    load(address + 4);
    pass_if(BPF_JEQ, (uint32_t)(start >> 32), 0);
    load(address);
    pass_if(BPF_JGE, (uint32_t)start, 0);
    if (start >> 32 == end >> 32) pass_if(BPF_JGE, (uint32_t)end, 1); /* else what is beyond 4 GiB passes */
    load(offsetof(struct seccomp_data, nr));
    for (; *calls != '\0'; calls += strcspn(calls, ",") + 1) {
        const size_t bytes = strcspn(calls, ",");
        size_t i = 0;
        while (strlen(named[i].name) != bytes || memcmp(named[i].name, calls, bytes) != 0)
            if (++i == sizeof named / sizeof *named) abort();
        pass_if(BPF_JEQ, named[i].number, 1);
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(77); /* the kernel lets no process refuse calls to itself */
}

static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static void install(void)
{
    *(void **)&real_create = dlsym(RTLD_NEXT, "pthread_create");
    const char *calls = getenv("FILTER_CALLS");
    dl_iterate_phdr(visit, NULL);
    if (calls != NULL && end != 0) filter(calls);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    return real_create(thread, attributes, run, argument);
}
