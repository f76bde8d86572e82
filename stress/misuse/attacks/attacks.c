/* attacks.c: what an attacker makes of one memory error, told apart by name. stress/misuse/attacks/measure runs them on any
 * malloc. More than 400 lines: a list of 25 small functions. Each has a goal beyond the error: to get a block that somebody has already, an address of its choice from malloc,
 * or another's bytes. The last line that a program prints is "succeeds" or "no effect"; a malloc that stops the process
 * before is a third result. An attack with variants succeeds if one of them does: the attacker knows the malloc.
 *
 * The forms are those that this field publishes: double frees and their way around a cache of the last freed blocks, forged
 * links and sizes, blocks that never were, unlinking, and reads of what is freed or new. */
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct attack {
    const char *name, *what;
    int (*run)(int variant); /* whether it succeeds */
    int variants;
};

enum { SMALL = 56, TRIES = 64, LARGE = 5000000, CACHED = 7 /* blocks of a size that libc's cache of a thread holds */ };
enum { SECRET = 0x5ec4e7 };

/* Hides from the compiler where the pointer comes from. */
static void *opaque(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

/* With ATTACKS_SAMPLED in the environment each small block is one that HAKMEM_GUARD_SAMPLE has placed: no page behind it can
 * be read. */
static int only_sampled;

static int is_sampled(const char *block)
{
    static int ends[2];
    if (ends[1] == 0 && pipe(ends) != 0) abort();
    char byte;
    if (write(ends[1], block - ((uintptr_t)block & 4095) + 4096, 1) < 0) return 1;
    if (read(ends[0], &byte, 1) != 1) abort();
    return 0;
}

static void *new_block(size_t size)
{
    char *block = opaque(malloc(size));
    for (int i = 0; only_sampled && size <= 4096 && block != NULL && !is_sampled(block); i++) {
        if (i == 100000) exit(3);
        block = opaque(malloc(size));
    }
    return block;
}

static void drop(void *block)
{
    free(opaque(block));
}

/* The word at a place, of a block that may be freed. */
static uintptr_t *word(void *block, ptrdiff_t at)
{
    return (uintptr_t *)opaque(block) + at;
}

/* Whether two of the next blocks are one. */
static int some_twice(size_t size)
{
    void *blocks[TRIES];
    for (int i = 0; i < TRIES; i++) {
        blocks[i] = new_block(size);
        for (int j = 0; j < i; j++)
            if (blocks[i] != NULL && blocks[i] == blocks[j]) return 1;
    }
    return 0;
}

/* --- double free --- */

static int double_free(int unused)
{
    (void)unused;
    void *block = new_block(SMALL);
    drop(block);
    drop(block);
    return some_twice(SMALL);
}

static int double_free_between(int unused)
{
    (void)unused;
    void *block = new_block(SMALL), *other = new_block(SMALL);
    drop(block);
    drop(other);
    drop(block);
    return some_twice(SMALL);
}

static int double_free_past_cache(int unused)
{
    (void)unused;
    void *cached[CACHED], *block, *other;
    for (int i = 0; i < CACHED; i++) cached[i] = new_block(SMALL);
    block = new_block(SMALL);
    other = new_block(SMALL);
    for (int i = 0; i < CACHED; i++) drop(cached[i]);
    drop(block);
    drop(other);
    drop(block);
    return some_twice(SMALL);
}

static int double_free_reused(int unused)
{
    (void)unused;
    void *block = new_block(SMALL), *owner = NULL;
    drop(block);
    for (int i = 0; i < TRIES && owner != block; i++) owner = new_block(SMALL);
    if (owner != block) return 0; /* free would be a plain double free */
    drop(block);
    return new_block(SMALL) == owner;
}

static int double_free_large(int unused)
{
    (void)unused;
    void *block = new_block(LARGE);
    drop(block);
    drop(block);
    void *first = new_block(LARGE), *second = new_block(LARGE);
    return first != NULL && first == second;
}

/* --- links and sizes --- */

static _Alignas(64) uintptr_t target[64];

static int some_is_target(size_t size)
{
    for (int i = 0; i < TRIES; i++) {
        char *block = new_block(size);
        if (block >= (char *)target && block < (char *)(target + 64)) return 1;
    }
    return 0;
}

/* Variants: the first or second word, as it is or as libc's malloc mixes it with its own address. */
enum { LINKS = 4 };

static void forge_link(void *freed, int variant)
{
    uintptr_t *link = word(freed, variant & 1);
    *link = (uintptr_t)target ^ (variant & 2 ? (uintptr_t)link >> 12 : 0);
}

static int link_of_freed(int variant)
{
    void *other = new_block(SMALL), *block = new_block(SMALL);
    drop(other);
    drop(block);
    forge_link(block, variant);
    return some_is_target(SMALL);
}

/* Of many blocks, two that are neighbours: *low and the next above it. */
static void neighbours(size_t size, char **low, char **high)
{
    char *blocks[TRIES];
    size_t least = SIZE_MAX;
    for (int i = 0; i < TRIES; i++) blocks[i] = new_block(size);
    for (int i = 0; i < TRIES; i++)
        for (int j = 0; j < TRIES; j++)
            if (blocks[i] < blocks[j] && (size_t)(blocks[j] - blocks[i]) < least) {
                least = (size_t)(blocks[j] - blocks[i]);
                *low = blocks[i];
                *high = blocks[j];
            }
}

static int link_by_overflow(int variant)
{
    char *low = NULL, *high = NULL;
    void *other = new_block(SMALL);
    neighbours(SMALL, &low, &high);
    drop(other);
    drop(high);
    for (char *at = low + SMALL; at < high; at++) *(volatile char *)at = 'x';
    forge_link(high, variant);
    return some_is_target(SMALL);
}

/* The size before a block, as libc's malloc has it, becomes that of three; the second of them is somebody's. */
static int forge_size(size_t size)
{
    char *blocks[TRIES];
    for (int i = 0; i < TRIES; i++) blocks[i] = new_block(size);
    char *middle = blocks[TRIES / 2], *next = blocks[TRIES / 2 + 1];
    size_t bytes = (size_t)(next - middle);
    *word(middle, -1) = 3 * bytes | 1;
    drop(middle);
    char *block = new_block(3 * bytes - 8);
    return block != NULL && block < next && next < block + 3 * bytes - 8;
}

static int size_small(int unused)
{
    (void)unused;
    return forge_size(SMALL);
}

static int size_middle(int unused)
{
    (void)unused;
    return forge_size(1200);
}

/* A free block that never was, in a live one. The free of its neighbour takes it out of a list, and so writes to *mine. */
static uintptr_t *mine;

static int unlink_forged(int unused)
{
    (void)unused;
    enum { BYTES = 1064 };
    mine = new_block(BYTES);
    char *next = new_block(BYTES);
    size_t distance = (size_t)(next - (char *)mine);
    if (distance > 2 * BYTES) return 0;
    uintptr_t *before = mine;
    *word(mine, 1) = distance - 16;
    *word(mine, 2) = (uintptr_t)(&mine - 3);
    *word(mine, 3) = (uintptr_t)(&mine - 2);
    *word(next, -2) = distance - 16;
    *word(next, -1) &= ~(uintptr_t)1;
    drop(next);
    return (uintptr_t **)(void *)mine == &mine - 3 || mine != before;
}

/* --- frees of what is no block --- */

static int free_static(int unused)
{
    (void)unused;
    target[1] = 64 | 1;
    target[9] = 64 | 1;
    drop(target + 2);
    return some_is_target(SMALL);
}

static int free_inside(int unused)
{
    (void)unused;
    uintptr_t *block = new_block(200);
    block[3] = 64 | 1;
    block[11] = 64 | 1;
    drop(block + 4);
    for (int i = 0; i < TRIES; i++) {
        char *small = new_block(SMALL), *same = new_block(200);
        if (small == (char *)(block + 4) || same == (char *)(block + 4)) return 1;
    }
    return 0;
}

static int free_unaligned(int unused)
{
    (void)unused;
    char *block = new_block(200);
    memset(block, 0, 200);
    drop(block + 8);
    for (int i = 0; i < TRIES; i++) {
        char *small = new_block(SMALL), *same = new_block(200);
        if (small == block + 8 || same == block + 8) return 1;
    }
    return 0;
}

/* --- bytes of others --- */

static void fill(void *block, size_t size)
{
    uint32_t *words = opaque(block);
    for (size_t i = 0; i < size / 4; i++) words[i] = SECRET;
}

static int has_secret(void *block, size_t size)
{
    const volatile uint32_t *words = opaque(block);
    for (size_t i = 0; i < size / 4; i++)
        if (words[i] == SECRET) return 1;
    return 0;
}

static int write_freed(size_t size)
{
    char *block = new_block(size);
    drop(block);
    for (int i = 0; i < TRIES; i++) {
        char *owner = new_block(size);
        if (owner == NULL) break;
        memset(owner, 1, size);
        ((volatile char *)opaque(block))[size / 2] = 2;
        if (((volatile char *)opaque(owner))[size / 2] == 2) return 1;
    }
    return 0;
}

static int write_freed_small(int unused)
{
    (void)unused;
    return write_freed(SMALL);
}

static int write_freed_large(int unused)
{
    (void)unused;
    return write_freed(LARGE);
}

static int read_freed(size_t size)
{
    void *block = new_block(size);
    fill(block, size);
    drop(block);
    return has_secret(block, size);
}

static int read_freed_small(int unused)
{
    (void)unused;
    return read_freed(SMALL);
}

static int read_freed_large(int unused)
{
    (void)unused;
    return read_freed(LARGE);
}

static int read_new(size_t size)
{
    void *block = new_block(size);
    fill(block, size);
    drop(block);
    for (int i = 0; i < TRIES; i++) {
        void *owner = new_block(size);
        if (owner != NULL && has_secret(owner, size)) return 1;
    }
    return 0;
}

static int read_new_small(int unused)
{
    (void)unused;
    return read_new(SMALL);
}

static int read_new_large(int unused)
{
    (void)unused;
    return read_new(LARGE);
}

static int read_beyond(int unused)
{
    (void)unused;
    char *low = NULL, *high = NULL;
    neighbours(SMALL, &low, &high);
    memset(low, 0, SMALL);
    fill(high, SMALL);
    return has_secret(low, (size_t)(high - low) + 8);
}

static int write_beyond(int unused)
{
    (void)unused;
    char *low = NULL, *high = NULL;
    neighbours(SMALL, &low, &high);
    memset(high, 1, SMALL);
    for (char *at = low + SMALL; at <= high; at++) *(volatile char *)at = 2;
    int changed = *(volatile char *)high == 2;
    drop(low);
    drop(high);
    return changed;
}

/* A loop that does not end, up to a block 64 KiB away. */
static int write_far_beyond(int unused)
{
    (void)unused;
    enum { COUNT = 4000 };
    static char *blocks[COUNT];
    char *low = new_block(SMALL), *far = NULL;
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = new_block(SMALL);
        memset(blocks[i], 1, SMALL);
        if (blocks[i] > low + 65536 && (far == NULL || blocks[i] < far)) far = blocks[i];
    }
    for (char *at = low; far != NULL && at <= far; at++) *(volatile char *)at = 2;
    return far != NULL && *(volatile char *)far == 2;
}

/* --- what can be foreseen --- */

static int next_address(int unused)
{
    (void)unused;
    enum { COUNT = 200 };
    char *before = new_block(SMALL);
    ptrdiff_t step = 0;
    int same = 0;
    for (int i = 0; i < COUNT; i++) {
        char *block = new_block(SMALL);
        same += block - before == step;
        step = block - before;
        before = block;
    }
    return same > COUNT / 2;
}

static int address_of_a_run(int unused)
{
    (void)unused;
    char shown[2][64] = {"", ""};
    for (int i = 0; i < 2; i++) {
        FILE *other = popen("exec /proc/$PPID/exe address", "r");
        if (other == NULL || fgets(shown[i], sizeof shown[i], other) == NULL) return 0;
        pclose(other);
    }
    return strcmp(shown[0], shown[1]) == 0;
}

static int product_wraps(int unused)
{
    (void)unused;
    volatile size_t count = SIZE_MAX / 4 + 2;
    return opaque(calloc(count, 4)) != NULL;
}

static const struct attack attacks[] = {
    {"double_free", "free twice: two owners of one block", double_free, 1},
    {"double_free_between", "the same, with another block freed in between", double_free_between, 1},
    {"double_free_past_cache", "the same, once a cache of seven blocks is full", double_free_past_cache, 1},
    {"double_free_reused", "free of a block that has a new owner: a third one gets it too", double_free_reused, 1},
    {"double_free_large", "free twice of 5 MB: two owners", double_free_large, 1},
    {"link_of_freed", "write to a freed block's link: malloc returns an address of the attacker's choice",
     link_of_freed, LINKS},
    {"link_by_overflow", "the same by an overflow of the block before it", link_by_overflow, LINKS},
    {"size_small", "forge the size before a block: a larger one overlaps its neighbour", size_small, 1},
    {"size_middle", "the same with blocks of 1200 bytes", size_middle, 1},
    {"unlink_forged", "forge a free neighbour: free writes to a pointer of the program", unlink_forged, 1},
    {"free_static", "free of forged static data: malloc returns it", free_static, 1},
    {"free_inside", "free of a place in a block: malloc returns it, and two blocks overlap", free_inside, 1},
    {"free_unaligned", "free of an unaligned place: malloc returns it", free_unaligned, 1},
    {"write_freed_small", "write to a freed block changes its new owner's bytes", write_freed_small, 1},
    {"write_freed_large", "the same with 5 MB", write_freed_large, 1},
    {"read_freed_small", "a freed block still has its bytes", read_freed_small, 1},
    {"read_freed_large", "the same with 5 MB", read_freed_large, 1},
    {"read_new_small", "a new block has the bytes of an earlier one", read_new_small, 1},
    {"read_new_large", "the same with 5 MB", read_new_large, 1},
    {"read_beyond", "a read behind a block gets its neighbour's bytes", read_beyond, 1},
    {"write_beyond", "an overflow changes the neighbour's bytes", write_beyond, 1},
    {"write_far_beyond", "an overflow changes a block 64 KiB away", write_far_beyond, 1},
    {"next_address", "where the next block will be can be foreseen", next_address, 1},
    {"address_of_a_run", "blocks have the same addresses in each run", address_of_a_run, 1},
    {"product_wraps", "calloc of a product that wraps returns a small block", product_wraps, 1},
    {NULL, NULL, NULL, 0},
};

/* Without a name, lists them; "address" prints that of a block. */
int main(int argc, char **argv)
{
    int variant = argc > 2 ? atoi(argv[2]) : 0;
    only_sampled = getenv("ATTACKS_SAMPLED") != NULL;
    if (argc == 2 && strcmp(argv[1], "address") == 0) printf("%p\n", new_block(SMALL));
    for (const struct attack *attack = attacks; attack->name != NULL; attack++) {
        if (argc < 2) printf("%s|%s|%d\n", attack->name, attack->what, attack->variants);
        if (argc < 2 || strcmp(attack->name, argv[1]) != 0) continue;
        setvbuf(stdout, NULL, _IONBF, 0); /* its buffer must not come from the heap under attack */
        int succeeds = attack->run(variant);
        only_sampled = 0;
        const char *text = succeeds ? "succeeds\n" : "no effect\n";
        if (write(STDOUT_FILENO, text, strlen(text)) < 0) return 1;
        return 0;
    }
    return argc < 2 || strcmp(argv[1], "address") == 0 ? 0 : 2;
}
