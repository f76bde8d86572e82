/* pagemap.c: see pagemap.h. More than 400 lines: all of it shares the tables' two addresses and length. */
#include "superslab/pagemap.h"

#include <errno.h>

#include "base/bits.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"

enum {
    FULL_BITS = HAK_ADDRESS_BITS,
    WINDOW_BITS_FIRST = 36, /* 64 GiB of address space for 4 MiB of tables */
    WINDOW_BITS_LAST = 34,
    WINDOW_START_LOG2 = 32, /* lower addresses are left to executables with a fixed address, and their break */
    WINDOW_TRIES = 4096,
    LIMIT_SHARE = 16, /* of the process's limit on address space, a map that is reserved whole may take 1/16 */
    SHOWN_SHARE = 64, /* what is readable of a sparse one for the validating library's sake, 1/64 */
    GIB_SHIFT = 30,
    SHOWN_MAX = 5,
    SPARSE_BITS = SPARSE_MAP ? FULL_BITS : 0, /* of a sparse map; 0: there is none */
};

static_assert(((size_t)PAGE_BYTES / sizeof(pagemap_tag_cell) << PAGE_SHIFT) == (size_t)1 << GIB_SHIFT,
              "a slice has the tags of a GiB");
enum { /* of the tables: slices of tags stand before those of descriptors, and one of those has this many GiB */
       TAG_SLICES = (size_t)1 << (FULL_BITS - GIB_SHIFT),
       DESCRIPTOR_SLICE_GIB = (PAGE_BYTES / sizeof(void *) * (size_t)CELL_BYTES) >> GIB_SHIFT,
};

static pagemap_tag_cell boot_tags[1];

_Atomic(pagemap_tag_cell *) pagemap_tags = boot_tags;
static char *table; /* both tables: the tags, then the descriptors */
static _Atomic(uintptr_t) *descriptors;

/* For each slice of PAGE_BYTES of the tables a bit: whether it is writable; whether it was mapped by itself (LOCK_MAP). */
enum {
    SLICES = (((size_t)4 << (FULL_BITS - PAGE_SHIFT)) + ((size_t)8 << (FULL_BITS - CELL_SHIFT))) / PAGE_BYTES,
};
static _Atomic(uint64_t) backed[SLICES / 64 + 1];
static uint64_t own[SLICES / 64 + 1];
/* The slice that is being mapped, plus 1; and that of a thread which a fork has caught at it, for the child: the thread may
 * have mapped it, and told nobody (LOCK_MAP). */
static size_t entering, caught;
static uint32_t map_bits; /* 0 before start */
static struct {
    size_t first, end; /* slices; those of tags are GiBs of addresses */
} shown[SHOWN_MAX];
static bool is_trimmed; /* of `shown` only the first slice is left (LOCK_MAP) */
static _Atomic(uintptr_t) window_next;
static uint64_t limit_at_start = UINT64_MAX;

uint32_t pagemap_test_window_bits;

static size_t table_bytes(uint32_t bits)
{
    return (sizeof(pagemap_tag_cell) << (bits - PAGE_SHIFT)) +
           round_up(sizeof(void *) << (bits - CELL_SHIFT), PAGE_BYTES);
}

static void map_begin(char *start, uint32_t bits)
{
    table = start;
    descriptors = (void *)(start + (sizeof(pagemap_tag_cell) << (bits - PAGE_SHIFT)));
    map_bits = bits;
    atomic_store_explicit(&window_next, (uintptr_t)1 << WINDOW_START_LOG2, memory_order_relaxed);
    /* relaxed: thread_process_start publishes it and the words above; any other reader has been handed a block. */
    atomic_store_explicit(&pagemap_tags, (pagemap_tag_cell *)(void *)start, memory_order_relaxed);
}

static int map_reserve(uint32_t bits)
{
    char *start = os->reserve(NULL, table_bytes(bits), PAGE_BYTES);
    if (start == NULL) return ENOMEM;
    int error = os->expose(start, table_bytes(bits));
    if (error != 0) {
        os->release(start, table_bytes(bits));
        return error;
    }
    map_begin(start, bits);
    return 0;
}

/* --- the sparse map -------------------------------------------------------------------------------------- */

/* Between what stands low (programs, what asks for addresses of its own choice) and what the kernel places from above.
 * CLISP claims 16 to 32 TiB for its heap, DPDK's processes map their shared memory from 16 TiB up, Java's ZGC its heap
 * within 4 to 32 TiB; the race detector of Go has 32 to 36 TiB, and 48 and above. Which of the places it is depends on
 * what the kernel has chosen at random: the addresses of modules and stacks. */
static char *sparse_place(void)
{
    enum { FIRST_TIB = 36, END_TIB = 48, TIB_SHIFT = 40 };
    uintptr_t step = (uintptr_t)1 << (FULL_BITS - PAGE_SHIFT + 3); /* twice the tags: more than both tables */
    uintptr_t seed = (uintptr_t)boot_tags / PAGE_BYTES * 31 + os_stack_address() / GRANULE_BYTES;
    uintptr_t places = ((uintptr_t)(END_TIB - FIRST_TIB) << TIB_SHIFT) / step;
    return (char *)(((uintptr_t)FIRST_TIB << TIB_SHIFT) + (seed * 0x9e3779b97f4a7c15ull >> 32) % places * step);
}

/* Reserves slices for good, without what is so already at either end, and makes them readable if they are of tags. */
static int show(char *start, size_t first, size_t end)
{
    uint32_t at = 0;
    for (; at < SHOWN_MAX && shown[at].end != 0; at++) {
        if (first >= shown[at].first && first < shown[at].end) first = shown[at].end;
        if (end > shown[at].first && end <= shown[at].end) end = shown[at].first;
    }
    if (first >= end) return 0;
    char *slices = start + first * PAGE_BYTES;
    if (os->reserve(slices, (end - first) * PAGE_BYTES, PAGE_BYTES) == NULL) return ENOMEM;
    int error = first < TAG_SLICES ? os->expose(slices, (end - first) * PAGE_BYTES) : 0;
    if (error != 0 && os->release(slices, (end - first) * PAGE_BYTES) == 0) return error;
    shown[at].first = first;
    shown[at].end = end; /* also where it is reserved only: then it is ours to back, and no more */
    return error;
}

/* With the descriptors too, a heap that grows there asks for no more addresses of our choice. */
static void show_around(char *start, const void *address, size_t before, size_t behind, bool is_heap)
{
    const size_t gib = (uintptr_t)address >> GIB_SHIFT, first = gib > before ? gib - before : 0;
    const size_t end = gib + behind < TAG_SLICES ? gib + behind : TAG_SLICES;
    if (gib >= TAG_SLICES) return;
    show(start, first, end);
    if (is_heap)
        show(start, TAG_SLICES + first / DESCRIPTOR_SLICE_GIB, TAG_SLICES + (end - 1) / DESCRIPTOR_SLICE_GIB + 1);
}

/* The tables are mapped as they are backed. So that free of a foreign pointer finds 0 all the same, the tags of what a
 * process has by itself are readable: of low addresses (NULL is there), of what the kernel places from above, of the
 * program and its break, of the first stack. That takes a MiB of address space, since mlockall counts all of it; the
 * validating library, which is to name foreign pointers, takes more. Only the first must be. */
static int sparse_reserve(void)
{
    enum { LOW = 2, PLACED_BEFORE = 6, PLACED_BEFORE_MOST = 128, PLACED_BEHIND = 2, PROGRAM = 2, STACK = 1 }; /* GiB */
    const uint64_t share = limit_at_start / SHOWN_SHARE / PAGE_BYTES;
    size_t before = PLACED_BEFORE;
    if (VALIDATE && share > before) before = share < PLACED_BEFORE_MOST ? share : PLACED_BEFORE_MOST;
    char *start = sparse_place();
    bool is_again = shown[0].end != 0; /* the last try could reserve the first, and neither expose nor release it */
    int error = is_again ? os->expose(start, LOW * PAGE_BYTES) : show(start, 0, LOW);
    if (error != 0) return error;
    void *placed = os->reserve(NULL, PAGE_BYTES, PAGE_BYTES);
    if (placed != NULL) os->release(placed, PAGE_BYTES);
    if (placed != NULL) show_around(start, placed, before, PLACED_BEHIND, true);
    show_around(start, (const void *)os_program_address(), 0, PROGRAM, false);
    show_around(start, (const void *)os_stack_address(), STACK, 1, false);
    map_begin(start, FULL_BITS);
    return 0;
}

/* Whether slices are mapped when they are backed, except those that are shown. */
static bool is_sparse(void)
{
    return map_bits == SPARSE_BITS;
}

/* relaxed: the hand-over of a block orders the bit for the thread that has the block. Any other thread may see the bit late, as if
 * it had asked before. */
static bool is_backed(size_t slice)
{
    return (atomic_load_explicit(&backed[slice / 64], memory_order_relaxed) >> slice % 64 & 1) != 0;
}

static size_t slice_of(const void *cell)
{
    return (size_t)((const char *)cell - table) / PAGE_BYTES;
}

static bool is_shown(size_t slice)
{
    if (is_trimmed) return slice == 0;
    for (uint32_t i = 0; i < SHOWN_MAX; i++)
        if (slice >= shown[i].first && slice < shown[i].end) return true;
    return false;
}

/* Tells whether a cell may be read. */
static bool is_mapped(const void *cell)
{
    return !is_sparse() || is_backed(slice_of(cell));
}

/* --- start ------------------------------------------------------------------------------------------------ */

int pagemap_start(void)
{
    limit_at_start = os_address_space_limit_bytes();
    if (pagemap_test_window_bits != 0) return map_reserve(pagemap_test_window_bits);
    int error = ENOMEM;
    if (SPARSE_MAP) error = sparse_reserve();
    /* Under a tight limit on address space the whole map would leave too little for the program. */
    else if (limit_at_start / LIMIT_SHARE >= table_bytes(FULL_BITS)) error = map_reserve(FULL_BITS);
    for (uint32_t bits = WINDOW_BITS_FIRST; error != 0 && bits >= WINDOW_BITS_LAST; bits--) error = map_reserve(bits);
    return error;
}

/* If others have mapped something at the slice's place, it cannot be had. */
static bool back_slice(size_t slice)
{
    char *start = table + slice * PAGE_BYTES;
    uint64_t bit = 1ull << slice % 64;
    if (lock_acquire(LOCK_MAP)) caught = entering;
    bool is_done = is_backed(slice); /* by another */
    const bool is_alone = is_sparse() && !is_shown(slice);
    if (!is_done && is_alone && (own[slice / 64] & bit) == 0) {
        entering = slice + 1;
        if (os->reserve(start, PAGE_BYTES, PAGE_BYTES) != NULL || caught == slice + 1)
            own[slice / 64] |= bit; /* for good, also where it cannot be committed now */
        /* A child that is forked here must find one of the two. */
        atomic_signal_fence(memory_order_release);
        entering = 0;
    }
    const bool is_ours = !is_alone || (own[slice / 64] & bit) != 0;
    is_done = is_done || (is_ours && os_commit_fresh(start, PAGE_BYTES) == 0);
    /* relaxed: the kernel orders what it did to the page, which nobody has written to. */
    if (is_done) atomic_fetch_or_explicit(&backed[slice / 64], bit, memory_order_relaxed);
    lock_release(LOCK_MAP);
    return is_done;
}

/* Makes the page of the tables that holds a cell writable. */
static bool back_cell(const void *cell)
{
    return is_backed(slice_of(cell)) || back_slice(slice_of(cell));
}

/* Backs the tags and the descriptor at an address. One slice holds all tags of a superslab, since it starts at a
 * multiple of its size. A huge block has only one tag, for its first page. */
static bool back(uintptr_t address)
{
    pagemap_tag_cell *tags = atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    return back_cell((const void *)&tags[address >> PAGE_SHIFT]) &&
           back_cell((const void *)&descriptors[address >> CELL_SHIFT]);
}

static void shown_each(void (*visit)(size_t slice))
{
    for (uint32_t i = 0; i < SHOWN_MAX; i++)
        for (size_t slice = shown[i].first; slice < shown[i].end; slice++)
            if (slice != 0 && !is_backed(slice)) visit(slice);
}

static void slice_own(size_t slice)
{
    own[slice / 64] |= 1ull << slice % 64;
}

/* While it is neither, it is `entering`: back_slice finds out. */
static void slice_leave(size_t slice)
{
    entering = slice + 1;
    atomic_signal_fence(memory_order_release);
    own[slice / 64] &= ~(1ull << slice % 64);
    atomic_signal_fence(memory_order_release);
    if (os->release(table + slice * PAGE_BYTES, PAGE_BYTES) != 0) slice_own(slice);
    atomic_signal_fence(memory_order_release);
    entering = 0;
}

void pagemap_trim(void)
{
    if (map_bits == 0 || !is_sparse()) return;
    if (lock_acquire(LOCK_MAP)) caught = entering;
    const bool is_first = !is_trimmed;
    if (is_first) shown_each(slice_own);
    atomic_signal_fence(memory_order_release); /* a child that is forked here finds each slice its own, or `entering` */
    is_trimmed = true;
    if (is_first) shown_each(slice_leave);
    lock_release(LOCK_MAP);
}

uint64_t pagemap_limit_bytes(void)
{
    return limit_at_start;
}

bool pagemap_is_window(void)
{
    return map_bits != FULL_BITS;
}

uint32_t pagemap_tag_checked(const void *address)
{
    if (map_bits == 0 || (uintptr_t)address >> map_bits != 0) return 0;
    const pagemap_tag_cell *tags = atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    return is_mapped((const void *)&tags[(uintptr_t)address >> PAGE_SHIFT]) ? pagemap_tag(address) : 0;
}

void pagemap_tag_set(const void *start, uint32_t pages, uint32_t tag)
{
    pagemap_tag_cell *tags = atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    uintptr_t first = (uintptr_t)start >> PAGE_SHIFT;
    /* Each in this order, and behind the slab itself, for a child that is forked now and visits the slabs that have tags
     * (cache/fork.c). The child goes from slab to slab by their first pages, so the first page's tag is set first and
     * cleared last. */
    for (uint32_t i = 0; i < pages; i++) {
        atomic_signal_fence(memory_order_release);
        atomic_store_explicit(&tags[first + (tag != 0 ? i : pages - 1 - i)], tag, memory_order_relaxed);
    }
}

/* --- descriptors ------------------------------------------------------------------------------------------- */

/* The cell of a huge mapping has HUGE_MARK, and above it in which page of the cell the mapping begins. The descriptor's
 * address has the bits above that. */
enum {
    HUGE_MARK = 1,
    HUGE_PAGE_SHIFT = 1,
    GONE =
        VALIDATE ? 2 : 0, /* what a cell is when nothing of ours is there any more: of HUGE_MARK and this, one alone */
};
static_assert(CELL_BYTES / PAGE_BYTES << HUGE_PAGE_SHIFT <= META_LINE_BYTES, "a cell's pages fit below the descriptor");

static _Atomic(uintptr_t) *cell_of(const void *address)
{
    return &descriptors[(uintptr_t)address >> CELL_SHIFT];
}

static uintptr_t cell_get(const void *address)
{
    if (map_bits == 0 || (uintptr_t)address >> map_bits != 0) return 0;
    if (!is_mapped((const void *)cell_of(address))) return 0;
    /* acquire: pairs with the release in pagemap_descriptor_set and pagemap_huge_enter. Needed by readers that hold no block
     * there (inspection, checks of foreign pointers). */
    uintptr_t cell = atomic_load_explicit(cell_of(address), memory_order_acquire);
    return cell != GONE ? cell : 0;
}

static void *huge_in(uintptr_t cell)
{
    return (cell & HUGE_MARK) != 0 ? (void *)(cell & -(uintptr_t)META_LINE_BYTES) : NULL;
}

static uintptr_t page_in(uintptr_t cell)
{
    return cell % META_LINE_BYTES >> HUGE_PAGE_SHIFT;
}

void *pagemap_descriptor(const void *address)
{
    uintptr_t cell = cell_get(address);
    return (cell & HUGE_MARK) == 0 ? (void *)cell : NULL;
}

void *pagemap_descriptor_of(const void *block)
{
    /* relaxed: as for tags, whatever handed the block over has ordered it. */
    uintptr_t cell = atomic_load_explicit(cell_of(block), memory_order_relaxed);
    return cell != GONE ? (void *)cell : NULL;
}

void *pagemap_huge(const void *address)
{
    return huge_in(cell_get(address));
}

void *pagemap_huge_below(const void *address, uintptr_t *start)
{
    if (map_bits == 0 || (uintptr_t)address >> map_bits != 0) return NULL;
    uintptr_t slot = (uintptr_t)address >> CELL_SHIFT;
    for (;;) {
        const bool has_cells = is_backed(slice_of((const void *)&descriptors[slot])); /* else it holds nothing */
        uintptr_t first = slot & ~(PAGE_BYTES / sizeof(void *) - 1); /* the slice's first cell */
        for (; has_cells; slot--) {
            uintptr_t cell = cell_get((const void *)(slot << CELL_SHIFT));
            if (cell != 0 && huge_in(cell) == NULL) return NULL;
            *start = (slot << CELL_SHIFT) + page_in(cell) * PAGE_BYTES;
            if (cell != 0 && *start <= (uintptr_t)address) return huge_in(cell);
            if (slot == first) break;
        }
        if (first == 0) return NULL;
        slot = first - 1;
    }
}

bool pagemap_was_ours(const void *address)
{
    if (map_bits == 0 || (uintptr_t)address >> map_bits != 0 || !is_mapped((const void *)cell_of(address)))
        return false;
    return atomic_load_explicit(cell_of(address), memory_order_relaxed) != 0;
}

void pagemap_descriptor_set(const void *start, void *descriptor)
{
    for (const char *at = start; at < (const char *)start + SUPERSLAB_BYTES; at += CELL_BYTES) {
        /* release: publishes the descriptor's content. Pairs with the acquire in cell_get. */
        atomic_store_explicit(cell_of(at), descriptor != NULL ? (uintptr_t)descriptor : GONE, memory_order_release);
    }
}

bool pagemap_part_enter(const void *start, void *descriptor)
{
    uintptr_t cell = atomic_load_explicit(cell_of(start), memory_order_relaxed);
    /* release: as in pagemap_descriptor_set. */
    while ((cell == 0 || cell == GONE) &&
           !atomic_compare_exchange_weak_explicit(cell_of(start), &cell, (uintptr_t)descriptor, memory_order_release,
                                                  memory_order_relaxed)) {}
    return cell == 0 || cell == GONE || cell == (uintptr_t)descriptor;
}

void pagemap_part_leave(const void *start, void *descriptor)
{
    uintptr_t cell = (uintptr_t)descriptor;
    /* relaxed: the cell publishes nothing any more. A huge mapping may have it. */
    atomic_compare_exchange_strong_explicit(cell_of(start), &cell, GONE, memory_order_relaxed, memory_order_relaxed);
}

bool pagemap_huge_enter(const void *start, size_t size_bytes, void *descriptor)
{
    uintptr_t first = (uintptr_t)start % CELL_BYTES / PAGE_BYTES;
    uintptr_t cell = atomic_load_explicit(cell_of(start), memory_order_relaxed);
    do {
        const bool is_free = cell == 0 || cell == GONE;
        if (!is_free && huge_in(cell) == NULL) return false; /* a superslab that lacks pages */
        if (!is_free && page_in(cell) - first >= (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES) return false;
        /* release: as in pagemap_descriptor_set. */
    } while (!atomic_compare_exchange_weak_explicit(cell_of(start), &cell,
                                                    (uintptr_t)descriptor | first << HUGE_PAGE_SHIFT | HUGE_MARK,
                                                    memory_order_release, memory_order_relaxed));
    return true;
}

void pagemap_huge_leave(const void *start, void *descriptor)
{
    uintptr_t cell = atomic_load_explicit(cell_of(start), memory_order_relaxed);
    /* relaxed: the cell publishes nothing any more. Where the mapping has moved away, another may have the place. */
    if (huge_in(cell) == descriptor)
        atomic_compare_exchange_strong_explicit(cell_of(start), &cell, GONE, memory_order_relaxed,
                                                memory_order_relaxed);
}

bool pagemap_tag_take(const void *start, uint32_t tag)
{
    pagemap_tag_cell *tags = atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    return atomic_compare_exchange_strong_explicit(&tags[(uintptr_t)start >> PAGE_SHIFT], &tag, 0, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* --- places ------------------------------------------------------------------------------------------------ */

typedef void *take_place(void *at, size_t size_bytes, size_t align_bytes); /* os->reserve or os->map */

/* Whether the system has size_bytes at any address. If not, no place in the window is worth a try. */
static bool is_to_be_had(take_place *take, size_t size_bytes)
{
    void *anywhere = take(NULL, size_bytes, PAGE_BYTES);
    if (anywhere == NULL) return false;
    os->release(anywhere, size_bytes);
    return true;
}

/* Searches the window for free address space, from where the last search ended, for at most WINDOW_TRIES places. */
static void *window_take(take_place *take, size_t size_bytes, size_t align_bytes)
{
    uintptr_t low = (uintptr_t)1 << WINDOW_START_LOG2;
    uintptr_t high = (uintptr_t)1 << map_bits;
    uintptr_t at = atomic_load_explicit(&window_next, memory_order_relaxed);
    if (align_bytes >= high || size_bytes >= high - low) return NULL;
    /* The search passes over no free part that is longer by a step. */
    size_t step = size_bytes < 8 * SUPERSLAB_BYTES ? SUPERSLAB_BYTES : size_bytes / 4 & -(size_t)SUPERSLAB_BYTES;
    void *start = NULL;
    for (int tries = 0; start == NULL && tries < WINDOW_TRIES; tries++) {
        at = round_up(at, align_bytes);
        if (at >= high || high - at < size_bytes) at = round_up(low, align_bytes);
        start = take((void *)at, size_bytes, align_bytes);
        at += start != NULL ? size_bytes : step;
        if (start == NULL && tries == 0 && !is_to_be_had(take, size_bytes)) break;
    }
    /* Stored on failure too: the next search continues from here. */
    atomic_store_explicit(&window_next, at, memory_order_relaxed);
    return start;
}

static char *take_anywhere(take_place *take, size_t size_bytes, size_t align_bytes)
{
    char *start = take(NULL, size_bytes, align_bytes);
    if (start == NULL || ((uintptr_t)start + size_bytes - 1) >> FULL_BITS == 0) return start;
    os->release(start, size_bytes); /* above the map: mmap gives such an address only for a hint, and we give none */
    return NULL;
}

static void *take(take_place *take_at, size_t size_bytes, size_t align_bytes)
{
    char *start = pagemap_is_window() ? window_take(take_at, size_bytes, align_bytes)
                                      : take_anywhere(take_at, size_bytes, align_bytes);
    if (start == NULL || back((uintptr_t)start)) return start;
    os->release(start, size_bytes);
    return NULL;
}

void *pagemap_reserve(size_t size_bytes, size_t align_bytes)
{
    return take(os->reserve, size_bytes, align_bytes);
}

void *pagemap_map(size_t size_bytes, size_t align_bytes)
{
    return take(os->map, size_bytes, align_bytes);
}
