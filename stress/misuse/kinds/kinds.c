/* kinds.c: what C programs do wrong. See kinds.h. More than 400 lines: a list of 46 small functions. */
#include "kinds.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "hakmem/hakmem.h"

/* Heaps of the program's own are libhakmem's; with another malloc the kinds that need them are left out. */
#pragma weak hak_heap_new
#pragma weak hak_heap_destroy
#pragma weak hak_heap_malloc
#pragma weak hak_heap_free_all
/* C23's, which libc may lack. */
extern void free_sized(void *block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *block, size_t align, size_t size) __attribute__((weak));

static void need(int is_there)
{
    if (is_there) return;
    puts("not here");
    exit(77);
}

static char *block_of(size_t size)
{
    return opaque(malloc(size));
}

/* --- reads and writes of freed blocks --- */

static char *shared;

static void write_freed(void)
{
    char *block = opaque(malloc(200)); /* told */
    free(block); /* told */
    opaque(block)[50] = 1;
    free(block_of(200));
}

static void read_freed(void)
{
    char *block = opaque(malloc(200)); /* told */
    memset(block, 1, 200);
    free(block); /* told */
    look(opaque(block) + 50); /* told */
}

static void write_freed_run(void)
{
    char *block = opaque(malloc(100000)); /* told */
    memset(block, 1, 100000);
    free(block); /* told */
    memset(opaque(block) + 5000, 2, 300); /* told */
    char *other = block_of(100000);
    look(other + 5000);
    free(other);
}

static void read_freed_run(void)
{
    char *block = opaque(malloc(100000)); /* told */
    memset(block, 1, 100000);
    free(block); /* told */
    look(opaque(block) + 50000); /* told */
}

static void write_freed_huge(void)
{
    char *block = opaque(malloc(5000000)); /* told */
    memset(block, 1, 5000000);
    free(block); /* told */
    opaque(block)[2500000] = 2; /* told */
}

static void read_freed_huge(void)
{
    char *block = opaque(malloc(5000000)); /* told */
    memset(block, 1, 5000000);
    free(block); /* told */
    look(opaque(block) + 2500000); /* told */
}

struct node {
    struct node *next;
    int value;
};

static void follow_freed(void)
{
    struct node *node = (struct node *)(void *)opaque(calloc(1, sizeof *node)); /* told */
    free(node); /* told */
    look((char *)&((struct node *)(void *)opaque(node))->next->value);
}

static void write_moved(void)
{
    char *block = opaque(malloc(100)); /* told */
    char *moved = opaque(realloc(opaque(block), 4000)); /* told */
    opaque(block)[10] = 1;
    free(moved);
}

static void *free_shared(void *unused)
{
    free(shared); /* told */
    return unused;
}

static void in_thread(void *(*start)(void *))
{
    pthread_t thread;
    need(pthread_create(&thread, NULL, start, NULL) == 0);
    pthread_join(thread, NULL);
}

static void write_freed_by_ended(void)
{
    shared = opaque(malloc(200)); /* told */
    in_thread(free_shared);
    opaque(shared)[50] = 1;
}

static pthread_barrier_t barrier;

static void *free_and_sleep(void *unused)
{
    free(shared); /* told */
    pthread_barrier_wait(&barrier);
    for (;;) pause();
    return unused;
}

static void write_freed_by_sleeper(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    shared = opaque(malloc(200)); /* told */
    need(pthread_create(&thread, NULL, free_and_sleep, NULL) == 0);
    pthread_barrier_wait(&barrier);
    opaque(shared)[50] = 1;
}

static void write_freed_in_child(void)
{
    char *block = opaque(malloc(200)); /* told */
    free(block); /* told */
    pid_t child = fork();
    if (child == 0) {
        opaque(block)[50] = 1;
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) abort();
}

static void write_freed_late(void)
{
    char *block = opaque(malloc(48)); /* told */
    free(block); /* told */
    for (int i = 0; i < 100; i++) free(block_of(48));
    opaque(block)[20] = 1;
    for (int i = 0; i < 3000; i++) free(block_of(48));
}

/* --- beyond the ends --- */

static void overflow_one(void)
{
    char *block = opaque(malloc(100)); /* told */
    memset(block, 1, 101);
    free(block); /* told */
}

static void overflow_word(void)
{
    int *block = (int *)(void *)opaque(malloc(10 * sizeof(int))); /* told */
    for (int i = 0; i <= 10; i++) block[i] = i;
    free(opaque(block)); /* told */
}

static void overflow_sixteen(void)
{
    char *block = opaque(malloc(32)); /* told */
    char *other = block_of(32);
    memset(block, 1, 32 + 24);
    free(block); /* told */
    free(other);
}

static void overflow_into_next(void)
{
    char *block = opaque(malloc(96)); /* told */
    char *other = block_of(96);
    opaque(block)[96 + 20] ^= 1;
    free(other);
    free(block);
}

static void overflow_far(void)
{
    char *block = opaque(malloc(100)); /* told */
    char *other = block_of(100);
    memset(block, 1, 100);
    memset(other, 2, 100);
    opaque(block)[100 + 56] = 9; /* told */
    free(block);
    free(other);
}

static void overflow_string(void)
{
    char *block = opaque(malloc(8)); /* told */
    strcpy(block, "12345678");
    free(block); /* told */
}

static void overflow_run(void)
{
    char *block = opaque(malloc(100000)); /* told */
    opaque(block)[100000] = 1;
    free(block); /* told */
}

static void overflow_huge(void)
{
    char *block = opaque(malloc(5000000)); /* told */
    opaque(block)[5000000] = 1;
    free(block); /* told */
}

static void overflow_aligned(void)
{
    void *block = NULL;
    if (posix_memalign(&block, 64, 100) != 0) return; /* told */
    memset(opaque(block), 1, 101);
    free(block); /* told */
}

static void overflow_grown(void)
{
    char *block = block_of(100);
    block = opaque(realloc(block, 300)); /* told */
    opaque(block)[300] = 1;
    free(block); /* told */
}

static void overflow_in_thread(void)
{
    shared = opaque(malloc(200)); /* told */
    opaque(shared)[200] = 1;
    in_thread(free_shared);
}

static int *table;

static void overflow_kept(void)
{
    table = (int *)(void *)opaque(malloc(10 * sizeof *table)); /* told */
    for (int i = 0; i <= 10; i++) table[i] = i;
}

static void overflow_getline(void)
{
    char text[] = "a line of text\n";
    FILE *file = fmemopen(text, sizeof text - 1, "r");
    char *line = NULL;
    size_t size = 0;
    ssize_t length = getline(&line, &size, file); /* told */
    memset(opaque(line) + length, '!', size - (size_t)length + 4);
    fclose(file);
    free(line); /* told */
}

static void overflow_usable(void)
{
    char *block = opaque(malloc(20)); /* told */
    memset(block, 1, malloc_usable_size(block) + 1);
    free(block); /* told */
}

static void underflow_one(void)
{
    char *block = opaque(malloc(100)); /* told */
    opaque(block)[-1] ^= 1;
    free(block); /* told */
}

static void underflow_word(void)
{
    long *block = (long *)(void *)opaque(malloc(100)); /* told */
    ((long *)(void *)opaque(block))[-2] = 7;
    free(block); /* told */
}

static void read_beyond(void)
{
    char *block = opaque(malloc(100)); /* told */
    memset(block, 1, 100);
    look(opaque(block) + 100); /* told */
    free(block);
}

static void overflow_own(void)
{
    need(hak_heap_new != NULL);
    struct hak_heap *heap = hak_heap_new();
    char *block = opaque(hak_heap_malloc(heap, 40)); /* told */
    memset(block, 1, 41);
    hak_heap_destroy(heap); /* told */
}

/* --- free and realloc of what must not be freed --- */

static void free_twice(void)
{
    char *block = opaque(malloc(100)); /* told */
    free(block); /* told */
    free(opaque(block)); /* told */
}

static void free_twice_apart(void)
{
    shared = opaque(malloc(100)); /* told */
    in_thread(free_shared);
    free(shared); /* told */
}

static void free_twice_run(void)
{
    char *block = opaque(malloc(100000));
    free(block);
    free(opaque(block)); /* told */
}

static void free_twice_huge(void)
{
    char *block = opaque(malloc(5000000));
    free(block);
    free(opaque(block)); /* told */
}

static void free_inside(void)
{
    char *block = opaque(malloc(100)); /* told */
    free(opaque(block) + 16); /* told */
}

static void free_unaligned(void)
{
    char *block = opaque(malloc(100));
    free(opaque(block) + 1); /* told */
}

static void free_stack(void)
{
    char local[64];
    free(opaque(local)); /* told */
}

static void free_static(void)
{
    static char text[64];
    free(opaque(text)); /* told */
}

static void free_mapping(void)
{
    void *mapping = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(opaque(mapping)); /* told */
}

static void free_beyond(void)
{
    char *block = opaque(malloc(100));
    free(opaque(block) + 4096); /* told */
}

static void realloc_freed(void)
{
    char *block = opaque(malloc(100)); /* told */
    free(block); /* told */
    free(realloc(opaque(block), 200)); /* told */
}

static void realloc_inside(void)
{
    char *block = opaque(malloc(1000)); /* told */
    free(realloc(opaque(block) + 32, 2000)); /* told */
}

static void free_wrong_size(void)
{
    need(free_sized != NULL);
    char *block = opaque(malloc(100)); /* told */
    free_sized(block, 90); /* told */
}

static void free_wrong_align(void)
{
    need(free_aligned_sized != NULL);
    char *block = opaque(aligned_alloc(64, 128)); /* told */
    free_aligned_sized(block, 32, 128); /* told */
}

static void free_of_destroyed(void)
{
    need(hak_heap_new != NULL);
    struct hak_heap *heap = hak_heap_new();
    char *block = opaque(hak_heap_malloc(heap, 40));
    hak_heap_destroy(heap);
    free(opaque(block)); /* told */
}

/* --- sizes, what was never written, what is never freed --- */

static void size_wraps(void)
{
    volatile size_t count = SIZE_MAX / 2;
    free(calloc(count, 4)); /* told */
}

static void size_negative(void)
{
    volatile long length = -8;
    free(malloc((size_t)length)); /* told */
}

static void read_unwritten(void)
{
    char **block = (char **)(void *)opaque(malloc(20 * sizeof *block)); /* told */
    look(*(char **)(void *)opaque(block + 3) == NULL ? "" : block[3]); /* told */
    free(block);
}

static char *volatile kept;

static void serve(void)
{
    kept = opaque(malloc(1000)); /* told */
    kept[0] = 1;
    kept = NULL;
}

static void leak(void)
{
    for (int i = 0; i < 20; i++) serve();
}

static const struct kind kinds[] = {
    {"write_freed", "write to a freed small block", write_freed},
    {"read_freed", "read of a freed small block", read_freed},
    {"write_freed_run", "write to a freed block of 100 KB", write_freed_run},
    {"read_freed_run", "read of a freed block of 100 KB", read_freed_run},
    {"write_freed_huge", "write to a freed block of 5 MB", write_freed_huge},
    {"read_freed_huge", "read of a freed block of 5 MB", read_freed_huge},
    {"follow_freed", "a pointer taken from a freed block is followed", follow_freed},
    {"write_moved", "write through the old pointer after realloc", write_moved},
    {"write_freed_by_ended", "write to a block that a thread freed which has ended", write_freed_by_ended},
    {"write_freed_by_sleeper", "write to a block that a thread freed which sleeps at exit", write_freed_by_sleeper},
    {"write_freed_in_child", "write by a forked child to a block that its parent freed", write_freed_in_child},
    {"write_freed_late", "write to a freed block after a hundred other frees", write_freed_late},
    {"overflow_one", "one byte behind a block", overflow_one},
    {"overflow_word", "a loop that goes one too far", overflow_word},
    {"overflow_sixteen", "24 bytes behind a block, that block freed first", overflow_sixteen},
    {"overflow_into_next", "a byte behind a block, the next block freed first", overflow_into_next},
    {"overflow_far", "one byte, 56 behind a block, inside the next block", overflow_far},
    {"overflow_string", "a string without room for its end", overflow_string},
    {"overflow_run", "a byte behind a block of 100 KB", overflow_run},
    {"overflow_huge", "a byte behind a block of 5 MB", overflow_huge},
    {"overflow_aligned", "a byte behind an aligned block", overflow_aligned},
    {"overflow_grown", "a byte behind a block that realloc grew", overflow_grown},
    {"overflow_in_thread", "a byte behind a block that another thread frees", overflow_in_thread},
    {"overflow_kept", "behind a block that is never freed", overflow_kept},
    {"overflow_getline", "behind a block that libc allocated", overflow_getline},
    {"overflow_usable", "a byte behind malloc_usable_size", overflow_usable},
    {"underflow_one", "one byte before a block", underflow_one},
    {"underflow_word", "a word before a block", underflow_word},
    {"read_beyond", "read of a byte behind a block", read_beyond},
    {"overflow_own", "a byte behind a block of a heap that is then destroyed", overflow_own},
    {"free_twice", "double free", free_twice},
    {"free_twice_apart", "double free, by two threads", free_twice_apart},
    {"free_twice_run", "double free of a block of 100 KB", free_twice_run},
    {"free_twice_huge", "double free of a block of 5 MB", free_twice_huge},
    {"free_inside", "free of a pointer into a block", free_inside},
    {"free_unaligned", "free of a pointer that is not aligned", free_unaligned},
    {"free_stack", "free of a local variable", free_stack},
    {"free_static", "free of static data", free_static},
    {"free_mapping", "free of what mmap returned", free_mapping},
    {"free_beyond", "free of a place that was never handed out", free_beyond},
    {"realloc_freed", "realloc of a freed block", realloc_freed},
    {"realloc_inside", "realloc of a pointer into a block", realloc_inside},
    {"free_wrong_size", "free_sized with another size", free_wrong_size},
    {"free_wrong_align", "free_aligned_sized with another alignment", free_wrong_align},
    {"free_of_destroyed", "free of a block whose heap was destroyed", free_of_destroyed},
    {"size_wraps", "calloc of a product that wraps", size_wraps},
    {"size_negative", "malloc of a negative size", size_negative},
    {"read_unwritten", "a pointer that was never written is followed", read_unwritten},
    {"leak", "blocks that nothing points to any more", leak},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    return run_kind(kinds, argc, argv);
}
