/* mutant_id.h: which mutant this process runs. schemata.py includes it at the top of each file that it changes, in a
 * copy of the tree.
 *
 * HAKMEM_MUTANT=N in the environment chooses mutant N; N,M,... chooses several; 0 or nothing: none. With
 * HAKMEM_MUTANTS_REACHED=FILE no mutant runs, and byte N of that file becomes 1 when the process comes to the place of mutant N. The file must exist, with
 * MUTANTS_MAX bytes. Keeps errno; calls nothing, so that it works inside the first malloc. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum { MUTANTS_MAX = 65536, MUTANTS_TOGETHER_MAX = 32, MUTANT_NOT_READ = -1, MUTANT_RECORD = -2, MUTANT_LIST = -3 };

/* Where the process began: argc, argv, and the environment, from the first instruction of the loader on. */
extern void *__libc_stack_end;

/* One in each library and program. Threads that read the environment at once write the same. */
__attribute__((weak, visibility("hidden"))) int mutant_id = MUTANT_NOT_READ;
__attribute__((weak, visibility("hidden"))) unsigned char *mutants_reached;
__attribute__((weak, visibility("hidden"))) int mutants_together[MUTANTS_TOGETHER_MAX + 1]; /* up to the first 0 */

static __attribute__((unused, noinline)) const char *mutant_variable(const char *name)
{
    char **at = (char **)__libc_stack_end;
    for (at += 1 + *(long *)at + 1; *at != 0; at++) {
        unsigned i = 0;
        while (name[i] != '\0' && (*at)[i] == name[i]) i++;
        if (name[i] == '\0' && (*at)[i] == '=') return *at + i + 1;
    }
    return 0;
}

static __attribute__((unused, noinline)) long mutant_syscall(long number, long a, long b, long c, long d, long e,
                                                             long f)
{
#if defined __x86_64__
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
#error "mutants are tried on x86-64"
#endif
}

static __attribute__((unused, noinline, cold)) int mutant_read(void)
{
    int id = 0, count = 0;
    const char *value = mutant_variable("HAKMEM_MUTANT");
    for (; value != 0 && ((*value >= '0' && *value <= '9') || *value == ','); value++) {
        if (*value == ',' && count < MUTANTS_TOGETHER_MAX - 1) mutants_together[count++] = id;
        id = *value == ',' ? 0 : 10 * id + (*value - '0');
    }
    if (count > 0) {
        mutants_together[count] = id;
        id = MUTANT_LIST;
    }
    const char *file = mutant_variable("HAKMEM_MUTANTS_REACHED");
    if (file != 0) {
        long descriptor = mutant_syscall(2 /* open */, (long)file, 2 /* O_RDWR */, 0, 0, 0, 0);
        long at = descriptor < 0 ? -1 : mutant_syscall(9 /* mmap */, 0, MUTANTS_MAX, 3, 1 /* shared */, descriptor, 0);
        if (descriptor >= 0) mutant_syscall(3 /* close */, descriptor, 0, 0, 0, 0, 0);
        if (at > 0 || at < -4095) {
            __atomic_store_n(&mutants_reached, (unsigned char *)at, __ATOMIC_RELEASE);
            id = MUTANT_RECORD;
        }
    }
    __atomic_store_n(&mutant_id, id, __ATOMIC_RELEASE);
    return id;
}

/* First of all, before a test takes from the process the address space or the descriptors that recording needs. */
__attribute__((constructor(101), unused)) static void mutant_begin(void)
{
    if (__atomic_load_n(&mutant_id, __ATOMIC_RELAXED) == MUTANT_NOT_READ) mutant_read();
}

/* Whether this process runs mutant number. */
static inline __attribute__((unused)) int mutant_is(int number)
{
    int id = __atomic_load_n(&mutant_id, __ATOMIC_RELAXED);
    if (__builtin_expect(id == 0, 1)) return 0;
    if (id == MUTANT_NOT_READ) id = mutant_read();
    if (id == MUTANT_RECORD) {
        unsigned char *reached = __atomic_load_n(&mutants_reached, __ATOMIC_ACQUIRE);
        if (reached != 0 && reached[number] == 0) reached[number] = 1;
        return 0;
    }
    if (id == MUTANT_LIST) {
        for (int i = 0; mutants_together[i] != 0; i++) {
            if (mutants_together[i] == number) return 1;
        }
        return 0;
    }
    return id == number;
}

#ifdef __cplusplus
}
#endif
