/* A small malloc, correct without MINI_BUG: thread caches over slabs with a lock for each class, mappings for what is
 * larger. With MINI_BUG=NAME it has one bug of bugs.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rooms.h"

enum bug mini_bug = BUG_none;

__attribute__((constructor(101))) static void choose_bug(void)
{
    static const char *const names[] = {
#define MINI_ROW(name, text) #name,
        MINI_BUGS(MINI_ROW)
#undef MINI_ROW
    };
    const char *chosen = getenv("MINI_BUG");
    if (chosen == NULL) return;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(chosen, names[i]) != 0) continue;
        mini_bug = (enum bug)i;
        return;
    }
    static const char text[] = "mini: no such MINI_BUG\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(3);
    _exit(2);
}

static void *refused(void)
{
    errno = ENOMEM;
    return NULL;
}

static bool one_in(unsigned number)
{
    static __thread unsigned calls __attribute__((tls_model("initial-exec")));
    return ++calls % number == 0;
}

static void *take(size_t size_bytes, size_t align_bytes, bool *fresh)
{
    *fresh = false;
    void *block = NULL;
    if (size_bytes <= SMALL_BYTES_MAX && align_bytes <= SMALL_BYTES_MAX - size_bytes) {
        char *start = cache_take(class_of(size_bytes + (align_bytes > 16 ? align_bytes - 1 : 0)));
        if (start == NULL) return refused();
        const bool lost = has(BUG_align_64) && align_bytes == 64 && size_bytes > 64 && size_bytes <= 128;
        return lost ? start : (char *)(((uintptr_t)start + align_bytes - 1) & ~(align_bytes - 1));
    }
    block = mapped_take(size_bytes, align_bytes, fresh);
    return block != NULL ? block : refused();
}

static bool is_mapped(void *block)
{
    return head_of(block)->kind == HEAD_MAPPED;
}

void *malloc(size_t size_bytes)
{
    static void *zero;
    bool fresh;
    if (has(BUG_zero_same) && size_bytes == 0 && zero != NULL) return zero;
    if (has(BUG_align_24) && size_bytes > 16 && size_bytes <= 24) {
        char *block = take(32, 16, &fresh);
        return block != NULL ? block + 8 : NULL;
    }
    void *block = take(size_bytes, 16, &fresh);
    if (has(BUG_zero_same) && size_bytes == 0) zero = block;
    return block;
}

void free(void *block)
{
    if (block == NULL) return;
    if (is_mapped(block)) {
        const int error = errno;
        mapped_free(block);
        if (!has(BUG_errno_zero)) errno = error;
        return;
    }
    if (has(BUG_leak_1000) && one_in(1000)) return;
    if (has(BUG_leak_10000) && one_in(10000)) return;
    const int error = errno;
    unsigned class_index;
    void *start = slab_block_start(block, &class_index);
    if (!has(BUG_zero_same) || class_index != 0) cache_put(class_index, start);
    errno = error;
}

static size_t usable_bytes(void *block)
{
    return is_mapped(block) ? mapped_usable_bytes(block) : slab_usable_bytes(block);
}

size_t malloc_usable_size(void *block)
{
    if (block == NULL) return 0;
    size_t bytes = usable_bytes(block);
    if (has(BUG_usable_aligned) && !is_mapped(block)) {
        unsigned class_index;
        slab_block_start(block, &class_index);
        bytes = class_bytes(class_index);
    }
    return has(BUG_usable_pad) && bytes >= 320 && bytes <= 1024 ? bytes + 16 : bytes;
}

void *calloc(size_t count, size_t size_bytes)
{
    size_t bytes;
    const bool wraps = __builtin_mul_overflow(count, size_bytes, &bytes);
    if (wraps && !(has(BUG_calloc_wrap) && ((count | size_bytes) >> 40) == 0)) return refused();
    bool fresh;
    void *block = take(bytes, 16, &fresh);
    if (has(BUG_calloc_class) && bytes > 1024 && bytes <= 1280) return block;
    if (has(BUG_calloc_ends) && bytes >= 2 * PAGE && bytes <= SMALL_BYTES_MAX && block != NULL) {
        const size_t usable = usable_bytes(block);
        memset(block, 0, PAGE);
        memset((char *)block + usable - PAGE, 0, PAGE);
        return block;
    }
    if (block != NULL && !fresh) memset(block, 0, usable_bytes(block));
    return block;
}

static void *move(void *block, size_t old_bytes, size_t size_bytes)
{
    void *moved = malloc(size_bytes);
    if (moved == NULL) {
        if (has(BUG_realloc_frees)) free(block);
        return NULL;
    }
    size_t kept = old_bytes < size_bytes ? old_bytes : size_bytes;
    if (has(BUG_grow_lost) && old_bytes < size_bytes) kept -= 8;
    memcpy(moved, block, kept);
    if (has(BUG_shrink_leaks) && is_mapped(block)) return moved;
    free(block);
    return moved;
}

void *realloc(void *block, size_t size_bytes)
{
    if (block == NULL) return malloc(size_bytes);
    if (size_bytes == 0) {
        free(block);
        return has(BUG_realloc_zero) ? block : NULL;
    }
    if (is_mapped(block)) {
        if (size_bytes <= SMALL_BYTES_MAX) return move(block, usable_bytes(block), size_bytes);
        void *resized = mapped_resize(block, size_bytes);
        if (resized == NULL && has(BUG_realloc_frees)) free(block);
        return resized != NULL ? resized : refused();
    }
    size_t old_bytes = slab_usable_bytes(block);
    unsigned class_index;
    if (has(BUG_realloc_aligned)) {
        slab_block_start(block, &class_index);
        old_bytes = class_bytes(class_index);
    }
    if (size_bytes <= old_bytes && (size_bytes >= old_bytes / 2 || old_bytes <= 64)) {
        const size_t from = size_bytes & ~(size_t)15;
        if (has(BUG_realloc_tail) && size_bytes < old_bytes) memset((char *)block + from, 0, old_bytes - from);
        return block;
    }
    return move(block, old_bytes, size_bytes);
}

void *reallocarray(void *block, size_t count, size_t size_bytes)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size_bytes, &bytes) ? refused() : realloc(block, bytes);
}

static bool is_power_of_two(size_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

static void *take_aligned(size_t align_bytes, size_t size_bytes)
{
    bool fresh;
    if (has(BUG_align_32)) align_bytes = (uint32_t)align_bytes;
    return take(size_bytes, align_bytes < 16 ? 16 : align_bytes, &fresh);
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    if (is_power_of_two(align_bytes)) return take_aligned(align_bytes, size_bytes);
    errno = EINVAL;
    return NULL;
}

int posix_memalign(void **block, size_t align_bytes, size_t size_bytes)
{
    const int before = errno;
    const bool valid = is_power_of_two(align_bytes) && align_bytes >= sizeof(void *);
    void *fresh = valid ? take_aligned(align_bytes, size_bytes) : NULL;
    errno = before;
    if (fresh != NULL || has(BUG_posix_out)) *block = fresh;
    if (!valid) return EINVAL;
    return fresh != NULL ? 0 : ENOMEM;
}

/* Other alignments are rounded up, as in glibc. */
void *memalign(size_t align_bytes, size_t size_bytes)
{
    if (align_bytes > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t power = 16;
    while (power < align_bytes) power *= 2;
    return take_aligned(power, size_bytes);
}

void *valloc(size_t size_bytes)
{
    return take_aligned(PAGE, size_bytes);
}

void *pvalloc(size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - PAGE) return refused();
    return take_aligned(PAGE, size_bytes == 0 ? PAGE : (size_bytes + PAGE - 1) & ~(size_t)(PAGE - 1));
}

void free_sized(void *block, size_t size_bytes)
{
    (void)size_bytes;
    free(block);
}

void free_aligned_sized(void *block, size_t align_bytes, size_t size_bytes)
{
    (void)size_bytes;
    if (has(BUG_sized_inside) && block != NULL && align_bytes > 16 && !is_mapped(block)) {
        unsigned class_index;
        slab_block_start(block, &class_index);
        cache_put(class_index, block);
        return;
    }
    free(block);
}

int malloc_trim(size_t pad_bytes)
{
    (void)pad_bytes;
    slabs_trim();
    return 1;
}
