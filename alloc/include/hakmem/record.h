/* record.h: the format of a crash record. This file is its only definition: crash/crash.c writes records, hakmem-stress
 * report reads them. C and C++.
 *
 *   magic (8 bytes), version (4)
 *   fields: id (4), length in bytes (4), payload
 *   the last field: id RECORD_END, length 4, CRC-32 (that of zip) of every byte before the CRC
 *
 * All numbers are little-endian and unaligned. The end field is the end of the file. A reader skips fields whose id it
 * does not know. Any field may be missing; a field marked "each" may occur many times. A record has at most
 * RECORD_BYTES_MAX bytes; the field `cut` tells which fields were shortened or left out to fit.
 *
 * Types of payload:
 *   number    8 bytes, two's complement where the meaning is signed
 *   bytes     as they are
 *   text      as it is, no NUL at the end; any bytes, UTF-8 by habit
 *   texts     each ended by a NUL
 *   numbers   8 bytes each
 *   named     a number, then a text
 *   module    numbers base, start, end; then a byte n, n bytes of build id, and the path as text
 *   guard     as many numbers as RECORD_GUARD names, then return addresses, the innermost first: those of the
 *             allocation, then those of the free
 *   failfast  as many numbers as RECORD_FAILFAST names, then return addresses as in a guard, then three texts, each a
 *             byte n and n bytes: the kind's name, what it means, and the call that found it: "free", "realloc",
 *             "malloc_usable_size", "quarantine" (a block that waited there was looked at), or "" for another
 *   place     as many numbers as RECORD_PLACE names, then numbers up to RECORD_WORDS (the block's first words),
 *             a byte n, and n bytes of text: what it is the place of: "fault", a register, or "free" for
 *             what was given to free or realloc */
#pragma once

#include <stdint.h>

enum {
    RECORD_VERSION = 1,
    RECORD_MAGIC_BYTES = 8,
    RECORD_HEAD_BYTES = RECORD_MAGIC_BYTES + 4,
    RECORD_FIELD_HEAD_BYTES = 8,
    RECORD_BYTES_MAX = 256 * 1024,
    RECORD_WORDS = 4,
    RECORD_END = 0x454e4421, /* "!DNE" in the file: no field will ever have this id */
};

#define RECORD_MAGIC "HAKCRASH"

/* X(id, name, type, meaning) */
#define RECORD_FIELDS(X)                                                                              \
    X(1, signal, number, "the signal's number")                                                       \
    X(2, signal_code, number, "si_code, signed")                                                      \
    X(3, fault_address, number, "si_addr; of SIGSEGV and SIGBUS only")                                \
    X(4, register, named, "each: a general register and its name")                                    \
    X(5, backtrace, numbers, "program counters: the first where it stopped, the others return there") \
    X(6, module, module, "each: a file mapped with code; base is what to take off an address")        \
    X(7, place, place, "each: what the heap knows of the fault address, of a register")               \
    X(8, suspect_address, number, "where a bad link stands, or where a list passed its bound")        \
    X(9, suspect_value, number, "that link")                                                          \
    X(10, suspect_class, number, "size class of that list")                                           \
    X(11, suspect_text, text, "what is wrong with it")                                                \
    X(12, suspect_copy, number, "each: a block of that class whose first word is that link too")      \
    X(13, process, number, "process id")                                                              \
    X(14, thread, number, "thread id")                                                                \
    X(15, thread_name, text, "name of the thread")                                                    \
    X(16, seed, number, "of the run, as the host program says")                                       \
    X(17, clock, number, "logical clock, as the host program says")                                   \
    X(18, schedule_hash, number, "hash of the schedule so far, as the host program says")             \
    X(19, operations, text, "lines: the last operations of each thread, as the host program says")    \
    X(20, reproduce, text, "the command that repeats the run, as the host program says")              \
    X(21, arguments, texts, "argv, as it was when the handler was installed")                         \
    X(22, directory, text, "working directory")                                                       \
    X(23, environment, texts, "environ, as the process was started")                                  \
    X(24, time_ns, number, "wall time in nanoseconds since 1970, UTC")                                \
    X(25, program, text, "path of the program")                                                       \
    X(26, program_build_id, bytes, "its GNU build id")                                                \
    X(27, library, text, "path of what libhakmem is in")                                              \
    X(28, library_build_id, bytes, "its GNU build id")                                                \
    X(29, library_version, text, "version of libhakmem, and which build")                             \
    X(30, architecture, text, "processor")                                                            \
    X(31, cut, number, "bit i set: the field with id i was cut, or some of its kind left out")        \
    X(32, guard, guard, "each: what a sampled block has found, and where it came from")               \
    X(33, failfast, failfast, "what the failed check found that ends the process; debug validation")  \
    X(34, failfast_report, text, "its report, as it is on standard error")                            \
    X(35, installed_process, number, "process in which the handler was installed; another: forked")   \
    X(36, standard_input, text, "what descriptor 0 was then: a path, or pipe:[1234]")                 \
    X(37, signal_sender, number, "process that sent the signal; not there for a fault")               \
    X(38, program_bytes, number, "size of the program's file when the handler was installed")         \
    X(39, program_mtime_ns, number, "when that file was modified, in nanoseconds since 1970, UTC")    \
    X(40, library_bytes, number, "the same of the file that libhakmem is in")                         \
    X(41, library_mtime_ns, number, "the same")

/* X(name, meaning): the numbers of a place (what the heap knows of an address), in this order. */
#define RECORD_PLACE(X)                                                                             \
    X(address, "that the place is of")                                                              \
    X(kind, "enum record_kind")                                                                     \
    X(state, "enum record_state")                                                                   \
    X(superslab, "where it begins; 0 for a huge block")                                             \
    X(page, "index of the page in its superslab")                                                   \
    X(class_index, "size class; 253 a sampled block, 254 a run, 255 a huge block")                  \
    X(block_start, "where the block begins; 0: in no block. Of a framed block, the program's part") \
    X(block_bytes, "how long that is; of a sampled block what was asked for")                       \
    X(offset, "address - block_start, signed")                                                      \
    X(owner, "id of the heap that owns the slab; 0: no slab, or one of hak_heap_new's heaps")       \
    X(owner_is_orphan, "1: no thread holds that heap")                                              \
    X(slab_start, "where the slab's first block begins")                                            \
    X(slab_capacity, "blocks in it")                                                                \
    X(slab_carved, "of them carved")                                                                \
    X(slab_used, "of them out of the slab: live, or in some cache")                                 \
    X(list_head, "first block of the slab's free list; 0: none")                                    \
    X(list_word, "where a link stands that leads out of the slab; 0: nowhere")                      \
    X(list_value, "that link")                                                                      \
    X(word_count, "how many of the block's first words follow")

/* X(name, text) */
#define RECORD_KINDS(X)                           \
    X(none, "no memory of this heap")             \
    X(slab, "a slab of small blocks")             \
    X(run, "a run of pages, one block")           \
    X(huge, "a huge block, a mapping of its own") \
    X(free, "a free page of a superslab")         \
    X(guard, "a sampled block, alone between pages that nobody may touch")

#define RECORD_STATES(X)                                                                                \
    X(unknown, "this build does not know whether the block is live")                                    \
    X(live, "the block is live: malloc gave it, free has not had it back")                              \
    X(free, "the block is free: in the quarantine, on its slab's free list, or in this thread's cache") \
    X(not_live, "the block is not live: free, or in a cache")                                           \
    X(not_carved, "the block was never given out")                                                      \
    X(outside, "between the slab's blocks and its ends: no block")                                      \
    X(freed, "the block was freed, and its page may not be touched since")

/* X(name, meaning): the numbers of a field `guard` (what a sampled block has found), in this order. */
#define RECORD_GUARD(X)                                                              \
    X(address, "of the access, or what was given to free or realloc")                \
    X(finding, "enum record_finding")                                                \
    X(block_start, "where the block begins that is nearest; 0: none has been there") \
    X(block_bytes, "how long it is, as it was asked for")                            \
    X(state, "enum record_state: live, freed or unknown")                            \
    X(allocated_by, "id of the thread that allocated it")                            \
    X(freed_by, "id of the thread that freed it; 0: nobody has")                     \
    X(allocated_count, "return addresses of the allocation")                         \
    X(freed_count, "return addresses of the free")

/* X(name, meaning): the numbers of a field `failfast` (what a failed check has found), in this order. */
#define RECORD_FAILFAST(X)                                                               \
    X(address, "that the report names: what was given to free, or the program's block")  \
    X(kind, "enum record_kind: the memory that it is in")                                \
    X(state, "enum record_state, of the block")                                          \
    X(class_index, "size class; 254 a run, 255 a huge block; of no block: 0")            \
    X(block_start, "where the program's block begins; 0: not known")                     \
    X(block_bytes, "how long it is: what was asked for, at level 1 the heap's block")    \
    X(bad_address, "the first byte that was overwritten, or the link; 0: none is known") \
    X(bad_bytes, "how many bytes were seen to be overwritten; 0: not counted")           \
    X(value, "the 8 bytes at bad_address rounded down to 8")                             \
    X(allocated_by, "id of the thread that allocated it; 0: not known")                  \
    X(freed_by, "id of the thread that freed it; 0: not known, or nobody has")           \
    X(allocated_count, "return addresses of the allocation; level 3")                    \
    X(freed_count, "return addresses of the free; level 3")

/* X(name, text) */
#define RECORD_FINDINGS(X)                               \
    X(none, "a fault in a live block")                   \
    X(past_end, "access past the end of a block")        \
    X(before, "access before a block")                   \
    X(use_after, "use after free")                       \
    X(freed_twice, "double free, or realloc after free") \
    X(freed_inside, "free or realloc of a pointer that is no block's start")

enum record_kind {
#define X(name, text) RECORD_KIND_##name,
    RECORD_KINDS(X)
#undef X
};

enum record_state {
#define X(name, text) RECORD_STATE_##name,
    RECORD_STATES(X)
#undef X
};

enum record_finding {
#define X(name, text) RECORD_FINDING_##name,
    RECORD_FINDINGS(X)
#undef X
};

enum record_field {
#define X(id, name, type, text) RECORD_##name = id,
    RECORD_FIELDS(X)
#undef X
};

enum {
#define X(name, text) +1
    RECORD_PLACE_NUMBERS = 0 RECORD_PLACE(X),
    RECORD_GUARD_NUMBERS = 0 RECORD_GUARD(X),
    RECORD_FAILFAST_NUMBERS = 0 RECORD_FAILFAST(X),
#undef X
};
