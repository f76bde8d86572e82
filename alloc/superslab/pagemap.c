/* pagemap.c: see pagemap.h. */
#include "superslab/pagemap.h"

#include <errno.h>

#include "base/bits.h"
#include "os/os.h"

enum {
    FULL_BITS = HAK_ADDRESS_BITS,
    WINDOW_BITS_FIRST = 36, /* 64 GiB of address space for 4 MiB of tables */
    WINDOW_BITS_LAST = 34,
    WINDOW_START_LOG2 = 32, /* below: executables that do not move, and their break */
    WINDOW_TRIES = 4096,
};

static pagemap_tag_cell boot_tags[1];

_Atomic(pagemap_tag_cell *) pagemap_tags = boot_tags;
static _Atomic(void *) *descriptors;
static uint32_t map_bits; /* 0 before start */
static _Atomic(uintptr_t) window_next;

uint32_t pagemap_test_window_bits;

static int map_reserve(uint32_t bits)
{
    size_t tag_bytes = sizeof(pagemap_tag_cell) << (bits - PAGE_SHIFT);
    size_t descriptor_bytes = round_up(sizeof(void *) << (bits - SUPERSLAB_SHIFT), PAGE_BYTES);
    char *start = os->reserve(NULL, tag_bytes + descriptor_bytes, PAGE_BYTES);
    if (start == NULL) return ENOMEM;
    int error = os->commit(start, tag_bytes + descriptor_bytes);
    if (error != 0) {
        os->release(start, tag_bytes + descriptor_bytes);
        return error;
    }
    descriptors = (void *)(start + tag_bytes);
    map_bits = bits;
    atomic_store_explicit(&window_next, (uintptr_t)1 << WINDOW_START_LOG2, memory_order_relaxed);
    /* release: publishes the descriptors' base; readers come after the START lock or after a block
     * was handed to them. */
    atomic_store_explicit(&pagemap_tags, (pagemap_tag_cell *)(void *)start, memory_order_release);
    return 0;
}

int pagemap_start(void)
{
    if (pagemap_test_window_bits != 0) return map_reserve(pagemap_test_window_bits);
    int error = map_reserve(FULL_BITS);
    for (uint32_t bits = WINDOW_BITS_FIRST; error != 0 && bits >= WINDOW_BITS_LAST; bits--)
        error = map_reserve(bits);
    return error;
}

bool pagemap_is_window(void)
{
    return map_bits != FULL_BITS;
}

uint32_t pagemap_tag_checked(const void *address)
{
    if (map_bits == 0 || (uintptr_t)address >> map_bits != 0) return 0;
    return pagemap_tag(address);
}

void pagemap_tag_set(const void *start, uint32_t pages, uint32_t tag)
{
    pagemap_tag_cell *tags = atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    uintptr_t first = (uintptr_t)start >> PAGE_SHIFT;
    /* relaxed: see pagemap_tag. */
    for (uint32_t i = 0; i < pages; i++)
        atomic_store_explicit(&tags[first + i], tag, memory_order_relaxed);
}

void *pagemap_descriptor(const void *address)
{
    if (map_bits == 0 || (uintptr_t)address >> map_bits != 0) return NULL;
    /* acquire: pairs with the release in pagemap_descriptor_set, for a reader that holds no block
     * of the superslab (inspection, checks of foreign pointers). */
    return atomic_load_explicit(&descriptors[(uintptr_t)address >> SUPERSLAB_SHIFT],
                                memory_order_acquire);
}

void pagemap_descriptor_set(const void *start, void *descriptor)
{
    /* release: publishes the descriptor's content; see pagemap_descriptor. */
    atomic_store_explicit(&descriptors[(uintptr_t)start >> SUPERSLAB_SHIFT], descriptor,
                          memory_order_release);
}

/* Whether the system would give so much anywhere: at a limit, no place of the window is worth a try. */
static bool is_to_be_had(size_t size_bytes)
{
    void *anywhere = os->reserve(NULL, size_bytes, PAGE_BYTES);
    if (anywhere == NULL) return false;
    os->release(anywhere, size_bytes);
    return true;
}

/* Walks the window from where the last search ended, once around, at most WINDOW_TRIES places. */
static void *window_reserve(size_t size_bytes, size_t align_bytes)
{
    uintptr_t low = (uintptr_t)1 << WINDOW_START_LOG2;
    uintptr_t high = (uintptr_t)1 << map_bits;
    uintptr_t at = atomic_load_explicit(&window_next, memory_order_relaxed);
    if (align_bytes >= high || size_bytes >= high - low) return NULL;
    size_t step = round_up(size_bytes, SUPERSLAB_BYTES);
    for (int tries = 0; tries < WINDOW_TRIES; tries++) {
        at = round_up(at, align_bytes);
        if (at >= high || high - at < size_bytes) {
            at = low;
            continue;
        }
        void *start = os->reserve((void *)at, size_bytes, align_bytes);
        at += step;
        if (start != NULL) {
            atomic_store_explicit(&window_next, at, memory_order_relaxed);
            return start;
        }
        if (tries == 0 && !is_to_be_had(size_bytes)) return NULL;
    }
    return NULL;
}

void *pagemap_reserve(size_t size_bytes, size_t align_bytes)
{
    if (pagemap_is_window()) return window_reserve(size_bytes, align_bytes);
    char *start = os->reserve(NULL, size_bytes, align_bytes);
    if (start == NULL) return NULL;
    if (((uintptr_t)start + size_bytes - 1) >> FULL_BITS == 0) return start;
    os->release(start, size_bytes); /* above what the map covers: only if asked for by a hint */
    return NULL;
}
