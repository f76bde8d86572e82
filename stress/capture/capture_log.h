/* The log of a captured process: what recorder.c writes, and stress/capture/convert.cc turns into a trace.
 *
 * A log is a sparse file that the process maps shared: a head of one page, then records of 16 bytes. So it outlives the
 * process, however that ends. The index of a record is its place in one order of all calls of the process. A record is
 * written size first; `what` stays 0 where a thread took an index and died before it wrote.
 *
 * Order: the index of an allocation is taken after the call has returned, that of a free before the call is made. So the
 * records of one address alternate, whichever threads make them. A realloc has two records for that reason. */
#ifndef HAKMEM_CAPTURE_LOG_H
#define HAKMEM_CAPTURE_LOG_H

#include <stdint.h>

enum {
    CAPTURE_HOLE,
    CAPTURE_MALLOC,
    CAPTURE_CALLOC,
    CAPTURE_ALIGNED_ALLOC,
    CAPTURE_POSIX_MEMALIGN,
    CAPTURE_MEMALIGN,
    CAPTURE_FREE,
    CAPTURE_REALLOC_BEGIN, /* the old block, before the call */
    CAPTURE_REALLOC_END,   /* the new block, or 0 */
    CAPTURE_THREAD_END,
    CAPTURE_FORK, /* in the parent */
    CAPTURE_TRIM,
    CAPTURE_TOUCHED, /* size_bytes of the block lie in pages that are resident: before it goes, or at exit */
    CAPTURE_KIND_COUNT
};

#define CAPTURE_DIRECTORY "HAKMEM_CAPTURE" /* environment: where the logs go */
#define CAPTURE_RECORDS_MAX "HAKMEM_CAPTURE_RECORDS" /* environment: the most records of a process */

enum { CAPTURE_VERSION = 2, CAPTURE_HEAD_BYTES = 4096, CAPTURE_SEATS = 1024, CAPTURE_PROGRAM_BYTES = 256 };

#define CAPTURE_MAGIC 0x676f6c2d6b616821ULL

/* what: bits 0 to 4 the kind, 5 to 9 log2 of the alignment, 10 to 19 the seat, 20 to 63 the address / 8 */
struct capture_record {
    uint64_t what;
    uint64_t size_bytes;
};

/* `count` is how many indices were taken; those from `room` on were not written. */
struct capture_head {
    uint64_t magic;
    uint32_t version, pid;
    uint64_t room;
    uint64_t count;
    char program[CAPTURE_PROGRAM_BYTES];
};

static inline unsigned capture_align_log2(uint64_t align_bytes)
{
    return align_bytes == 0 ? 0 : (unsigned)(63 - __builtin_clzll(align_bytes));
}

static inline uint64_t capture_what(unsigned kind, unsigned align_log2, unsigned seat, uint64_t address)
{
    return kind | (uint64_t)align_log2 << 5 | (uint64_t)seat << 10 | (address >> 3) << 20;
}

#endif
