/* api.c: the hak_* functions that need more than one module; hakmem.h states their contracts. The others are defined by the module
 * that does their work. Under VALIDATE either all blocks have frames or none has. If they have, debug/frame.c serves the calls, on
 * top of the same heap. */
#include <errno.h>

#include "base/bits.h"
#include "cache/defrag.h"
#include "debug/frame.h"
#include "debug/quarantine.h"
#include "hakmem/hakmem.h"
#include "control/background.h"
#include "heap/heap.h"
#include "heap/own.h"
#include "control/stats.h"
#include "control/stats_write.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "profile/profile.h"
#include "profile/profile_write.h"
#include "report/output.h"
#include "base/config.h"
#include "superslab/limit.h"

static void *alloc_aligned(size_t align_bytes, size_t size_bytes)
{
    if (VALIDATE && frames_on()) return frame_alloc(FAMILY_MALLOC, align_bytes, size_bytes, false);
    return heap_alloc_aligned(align_bytes, size_bytes);
}

void *hak_malloc(size_t size_bytes)
{
    if (VALIDATE && frames_on()) return frame_alloc(FAMILY_MALLOC, 0, size_bytes, false);
    return heap_alloc(size_bytes);
}

void *hak_calloc(size_t count, size_t size_bytes)
{
    if (VALIDATE && frames_on())
        return frame_size_fits(count, size_bytes) ? frame_alloc(FAMILY_MALLOC, 0, count * size_bytes, true) : NULL;
    return heap_calloc(count, size_bytes);
}

void *hak_realloc(void *block, size_t size_bytes)
{
    if (VALIDATE && frames_on()) return frame_realloc(block, size_bytes);
    return heap_realloc(block, size_bytes);
}

void *hak_reallocarray(void *block, size_t count, size_t size_bytes)
{
    if (VALIDATE && frames_on())
        return frame_size_fits(count, size_bytes) ? frame_realloc(block, count * size_bytes) : NULL;
    return heap_reallocarray(block, count, size_bytes);
}

void hak_free(void *block)
{
    if (VALIDATE && frames_on()) {
        frame_free(block, (struct frame_said){.family = FAMILY_MALLOC});
    } else {
        heap_free(block);
    }
}

void hak_free_sized(void *block, size_t size_bytes)
{
    if (VALIDATE && frames_on()) {
        frame_free(block, (struct frame_said){.has_size = true, .size_bytes = size_bytes});
    } else {
        heap_free(block);
    }
}

void hak_free_aligned_sized(void *block, size_t align_bytes, size_t size_bytes)
{
    if (VALIDATE && frames_on()) {
        frame_free(block,
                   (struct frame_said){
                       .has_size = true, .size_bytes = size_bytes, .has_align = true, .align_bytes = align_bytes});
    } else {
        heap_free(block);
    }
}

void *hak_aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    if (is_power_of_two(align_bytes)) return alloc_aligned(align_bytes, size_bytes);
    errno = EINVAL;
    return NULL;
}

void *hak_memalign(size_t align_bytes, size_t size_bytes)
{
    if (align_bytes > (size_t)PTRDIFF_MAX + 1) { /* cannot be rounded up; PTRDIFF_MAX + 1 itself fails by ENOMEM */
        errno = EINVAL;
        return NULL;
    }
    if (!is_power_of_two(align_bytes)) align_bytes = align_bytes == 0 ? 1 : (size_t)2 << log2_floor(align_bytes);
    return alloc_aligned(align_bytes, size_bytes);
}

int hak_posix_memalign(void **block, size_t align_bytes, size_t size_bytes)
{
    if (!is_power_of_two(align_bytes) || align_bytes % sizeof(void *) != 0) return EINVAL;
    int saved = errno;
    void *aligned = alloc_aligned(align_bytes, size_bytes);
    errno = saved;
    if (aligned == NULL) return ENOMEM;
    *block = aligned;
    return 0;
}

void *hak_valloc(size_t size_bytes)
{
    return alloc_aligned(os_page_bytes(), size_bytes);
}

void *hak_pvalloc(size_t size_bytes)
{
    size_t page_bytes = os_page_bytes();
    if (size_bytes == 0) size_bytes = page_bytes;
    if (size_bytes <= PTRDIFF_MAX) size_bytes = round_up(size_bytes, page_bytes); /* a larger one is refused as it is */
    return alloc_aligned(page_bytes, size_bytes);
}

size_t hak_malloc_usable_size(const void *block)
{
    if (VALIDATE && frames_on()) return frame_usable_size(block);
    size_t usable_bytes = heap_usable_size(block);
    /* From now on the program may use the bytes whose number it learns here. A freed block stays closed. */
    if (ASAN && usable_bytes > 0 && sanitizer_is_open(block)) sanitizer_open(block, usable_bytes);
    return usable_bytes;
}

size_t hak_purge(void)
{
    if (VALIDATE && frames_on()) quarantine_empty();
    return heap_purge();
}

size_t hak_purge_all(void)
{
    if (VALIDATE && frames_on()) quarantine_empty();
    return heap_purge_all();
}

int hak_background(bool on)
{
    return background_set(on);
}

size_t hak_good_size(size_t size_bytes)
{
    if (VALIDATE && frames_on()) return size_bytes;
    return heap_good_size(size_bytes);
}

struct hak_sized_block hak_malloc_at_least(size_t size_bytes)
{
    size_t good_bytes = hak_good_size(size_bytes);
    void *block = hak_malloc(good_bytes);
    return (struct hak_sized_block){.block = block, .size_bytes = block != NULL ? good_bytes : 0};
}

bool hak_defrag_hint(const void *block)
{
    return defrag_hint(block);
}

void *hak_defrag_move(void *block)
{
    return defrag_move(block);
}

void hak_limit_set(size_t limit_bytes)
{
    limit_set(limit_bytes);
}
size_t hak_limit_get(void)
{
    return limit_get();
}
void hak_limit_soft_set(size_t limit_bytes)
{
    limit_soft_set(limit_bytes);
}
size_t hak_limit_soft_get(void)
{
    return limit_soft_get();
}
int hak_stats_write(int fd, enum hak_stats_format format)
{
    return stats_write(fd, (int)format);
}
void hak_stats_get(struct hak_stats *out)
{
    stats_get(out);
}
void hak_stats_print(FILE *stream)
{
    struct output out;
    output_begin(&out, stream, -1);
    stats_print(&out);
}

void *hak_heap_malloc(struct hak_heap *heap, size_t size_bytes)
{
    if (VALIDATE && frames_on()) return frame_alloc_in(heap, 0, size_bytes, false);
    return own_alloc(heap, 0, size_bytes, false);
}

void *hak_heap_calloc(struct hak_heap *heap, size_t count, size_t size_bytes)
{
    if (VALIDATE && frames_on())
        return frame_size_fits(count, size_bytes) ? frame_alloc_in(heap, 0, count * size_bytes, true) : NULL;
    return own_calloc(heap, count, size_bytes);
}

void *hak_heap_aligned_alloc(struct hak_heap *heap, size_t align_bytes, size_t size_bytes)
{
    if (!is_power_of_two(align_bytes)) {
        errno = EINVAL;
        return NULL;
    }
    if (VALIDATE && frames_on()) return frame_alloc_in(heap, align_bytes, size_bytes, false);
    return own_alloc(heap, align_bytes, size_bytes, false);
}

void *hak_heap_realloc(struct hak_heap *heap, void *block, size_t size_bytes)
{
    if (block == NULL) return hak_heap_malloc(heap, size_bytes);
    if (VALIDATE && frames_on()) return frame_realloc_in(heap, block, size_bytes);
    return own_realloc_any(heap, block, size_bytes);
}

int hak_profile_start(size_t mean_bytes)
{
    return profile_start(mean_bytes != 0 ? mean_bytes : PROFILE_MEAN_BYTES, 0);
}
void hak_profile_stop(void)
{
    profile_stop();
}
int hak_profile_dump(const char *path)
{
    return profile_write(path);
}

const char *hak_version(void)
{
    return HAKMEM_VERSION;
}
