/* cfi.c: see cfi.h. The format is that of the Linux Standard Base, chapter 10.6, and DWARF 4, chapter 6.4. */
#include "os/stack/cfi.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/bits.h"
#include "base/policy.h"

bool cfi_is_runtime_path(const char *path)
{
    static const char *const names[] = {"libc.so",   "libc-2", "libstdc++.so", "libc++.so", "libc++abi.so",
                                        "libgcc_s.", "ld-",    "libpthread",   "libm.so",   "libm-2"};
    const char *slash = strrchr(path, '/'), *file = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(file, names[i], strlen(names[i])) == 0) return true;
    return false;
}

#if defined(__x86_64__)

enum { FILES_MAX = 64, RUNTIMES_MAX = 8, CACHE_ENTRIES = 1024, REMEMBERED_MAX = 4 };
enum { REG_FRAME = 6, REG_STACK = 7, REG_RETURN = 16 };
enum { PCREL_S4 = 0x1b, DATAREL_S4 = 0x3b }; /* encodings of pointers: the ones that gcc and clang write */

struct file {
    uintptr_t low, high; /* of its code */
    const uint8_t *header; /* .eh_frame_hdr */
};

/* Written by cfi_start alone. */
static struct file files[FILES_MAX];
static uint32_t file_count;
static struct file runtimes[RUNTIMES_MAX];
static uint32_t runtime_count;
static uintptr_t runtimes_low = UINTPTR_MAX, runtimes_high;

/* --- the files ------------------------------------------------------------------------------------------------ */

static int add_file(struct dl_phdr_info *info, size_t size, void *stays)
{
    (void)size;
    struct file file = {.low = UINTPTR_MAX};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME) file.header = (const uint8_t *)start;
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
        if (start < file.low) file.low = start;
        if (start + segment->p_memsz > file.high) file.high = start + segment->p_memsz;
    }
    /* version 1; the count of the table's rows has 4 bytes, and its rows are offsets from the header */
    bool is_known = file.header != NULL && file.header[0] == 1 && file.header[1] == PCREL_S4 && file.header[2] == 3 &&
                    file.header[3] == DATAREL_S4;
    if (!is_known || file.low >= file.high || file_count == FILES_MAX) return 0;
    if (!(*(cfi_stays_fn **)stays)(file.low)) return 0;
    files[file_count++] = file;
    if (!cfi_is_runtime_path(info->dlpi_name) || runtime_count == RUNTIMES_MAX) return 0;
    runtimes[runtime_count++] = file;
    if (file.low < runtimes_low) runtimes_low = file.low;
    if (file.high > runtimes_high) runtimes_high = file.high;
    return 0;
}

void cfi_start(cfi_stays_fn *stays)
{
    if (file_count == 0) dl_iterate_phdr(add_file, &stays);
}

bool cfi_is_runtime(uintptr_t address)
{
    if (HAK_LIKELY(address - runtimes_low >= runtimes_high - runtimes_low)) return false;
    for (uint32_t i = 0; i < runtime_count; i++)
        if (address - runtimes[i].low < runtimes[i].high - runtimes[i].low) return true;
    return false;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static uint32_t read_4(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static int64_t read_signed_4(const uint8_t *at)
{
    return (int32_t)read_4(at);
}

static uint64_t read_number(const uint8_t **at)
{
    uint64_t value = 0;
    for (uint32_t shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) return value;
    }
}

static int64_t read_signed(const uint8_t **at)
{
    uint64_t value = 0;
    for (uint32_t shift = 0;;) {
        uint8_t byte = *(*at)++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if ((byte & 0x80) != 0) continue;
        if (shift < 64 && (byte & 0x40) != 0) value |= ~0ull << shift;
        return (int64_t)value;
    }
}

/* --- the rules of a function ------------------------------------------------------------------------------------- */

/* Where the caller's values are: the caller's stack pointer is `base` plus `offset`; the others lie in memory at such a
 * distance from it. */
struct rules {
    bool by_frame; /* base: the frame pointer, or else the stack pointer */
    bool is_frame_saved, is_unknown;
    int32_t offset, frame_at, return_at;
};

struct program {
    const uint8_t *at, *end;
    uint64_t code_align;
    int64_t data_align;
};

static void set_base(struct rules *rules, uint64_t reg)
{
    rules->by_frame = reg == REG_FRAME;
    rules->is_unknown = reg != REG_FRAME && reg != REG_STACK;
}

static void set_saved(struct rules *rules, uint64_t reg, int64_t offset)
{
    if (reg == REG_FRAME) {
        rules->is_frame_saved = true;
        rules->frame_at = (int32_t)offset;
    } else if (reg == REG_RETURN) {
        rules->return_at = (int32_t)offset;
    }
}

static void restore(struct rules *rules, const struct rules *first, uint64_t reg)
{
    if (reg != REG_FRAME) return;
    rules->is_frame_saved = first->is_frame_saved;
    rules->frame_at = first->frame_at;
}

/* Carries out the instructions of a program up to the pc; location is where the function begins. False: one is not
 * understood. */
static bool carry_out(struct program program, uint64_t location, uint64_t pc, const struct rules *first,
                      struct rules *rules)
{
    struct rules remembered[REMEMBERED_MAX];
    uint32_t depth = 0;
    const uint8_t **at = &program.at;
    while (*at < program.end && location <= pc) {
        struct rules before = *rules;
        uint8_t code = *(*at)++, low = code & 0x3f;
        uint64_t reg;
        switch (code >> 6) {
        case 1: location += low * program.code_align; break;
        case 2: set_saved(rules, low, (int64_t)read_number(at) * program.data_align); continue;
        case 3: restore(rules, first, low); continue;
        default:
            switch (code) {
            case 0x00: continue; /* DW_CFA_nop */
            case 0x02: location += *(*at)++ * program.code_align; break; /* DW_CFA_advance_loc1 */
            case 0x03: location += (*at)[0] + 256u * (*at)[1], *at += 2; break; /* DW_CFA_advance_loc2 */
            case 0x04: location += read_4(*at), *at += 4; break; /* DW_CFA_advance_loc4 */
            case 0x05: /* DW_CFA_offset_extended */
                reg = read_number(at);
                set_saved(rules, reg, (int64_t)read_number(at) * program.data_align);
                continue;
            case 0x06: restore(rules, first, read_number(at)); continue; /* DW_CFA_restore_extended */
            case 0x07: /* DW_CFA_undefined, DW_CFA_same_value */
            case 0x08:
                reg = read_number(at);
                if (reg == REG_FRAME) rules->is_frame_saved = false;
                if (reg == REG_RETURN) return false; /* the outermost function */
                continue;
            case 0x0a: /* DW_CFA_remember_state */
                if (depth == REMEMBERED_MAX) return false;
                remembered[depth++] = *rules;
                continue;
            case 0x0b: /* DW_CFA_restore_state */
                if (depth == 0) return false;
                *rules = remembered[--depth];
                continue;
            case 0x0c: /* DW_CFA_def_cfa */
                set_base(rules, read_number(at));
                rules->offset = (int32_t)read_number(at);
                continue;
            case 0x0d: set_base(rules, read_number(at)); continue; /* DW_CFA_def_cfa_register */
            case 0x0e: rules->offset = (int32_t)read_number(at); continue; /* DW_CFA_def_cfa_offset */
            case 0x0f: /* DW_CFA_def_cfa_expression */
                rules->is_unknown = true;
                *at += read_number(at);
                continue;
            case 0x10: /* DW_CFA_expression, DW_CFA_val_expression */
            case 0x16:
                reg = read_number(at);
                if (reg == REG_FRAME || reg == REG_RETURN) return false;
                reg = read_number(at);
                *at += reg;
                continue;
            case 0x11: /* DW_CFA_offset_extended_sf */
                reg = read_number(at);
                set_saved(rules, reg, read_signed(at) * program.data_align);
                continue;
            case 0x2e: read_number(at); continue; /* DW_CFA_GNU_args_size */
            default: return false;
            }
        }
        if (location > pc) *rules = before;
    }
    return true;
}

/* The common part of entries (CIE). Its pointers must have 4 bytes, from where they are. */
static bool read_common(const uint8_t *at, struct program *program, bool *is_signal)
{
    program->end = at + 4 + read_4(at);
    at += 8;
    if (*at++ != 1) return false;
    const char *augmentation = (const char *)at;
    at += strlen(augmentation) + 1;
    program->code_align = read_number(&at);
    program->data_align = read_signed(&at);
    if (read_number(&at) != REG_RETURN || augmentation[0] != 'z') return false;
    uint64_t length = read_number(&at);
    program->at = at + length;
    for (const char *letter = augmentation + 1; *letter != '\0'; letter++) {
        if (*letter == 'R' && *at++ != PCREL_S4) return false;
        if (*letter == 'L') at++;
        if (*letter == 'P') at += (*at & 0x0f) == 0x0b || (*at & 0x0f) == 0x03 ? 5 : 9;
        if (*letter == 'S') *is_signal = true;
    }
    return true;
}

static bool find_rules(const struct file *file, uintptr_t pc, struct rules *rules)
{
    const uint8_t *header = file->header, *table = header + 12;
    uint32_t low = 0, high = read_4(header + 8);
    int64_t wanted = (int64_t)(pc - (uintptr_t)header);
    while (high - low > 1) { /* row low begins at the pc or before */
        uint32_t middle = low + (high - low) / 2;
        if (read_signed_4(table + (size_t)middle * 8) <= wanted) low = middle;
        else high = middle;
    }
    if (high == 0) return false;
    const uint8_t *entry = header + read_signed_4(table + (size_t)low * 8 + 4);
    if (read_4(entry) == 0xffffffff) return false; /* longer than 4 GiB */
    struct program first, own = {.end = entry + 4 + read_4(entry)};
    bool is_signal = false;
    if (!read_common(entry + 4 - read_4(entry + 4), &first, &is_signal) || is_signal) return false;
    uintptr_t begin = (uintptr_t)(entry + 8) + (uintptr_t)read_signed_4(entry + 8);
    if (pc - begin >= read_4(entry + 12)) return false;
    own.at = entry + 16;
    uint64_t length = read_number(&own.at);
    own.at += length;
    own.code_align = first.code_align;
    own.data_align = first.data_align;
    *rules = (struct rules){.is_unknown = true, .return_at = -8};
    if (!carry_out(first, 0, 0, rules, rules)) return false;
    struct rules initial = *rules;
    return carry_out(own, begin, pc, &initial, rules) && !rules->is_unknown;
}

/* --- what was found before ----------------------------------------------------------------------------------------- */

/* Offsets in words of the stack: 20 bits for the caller's stack pointer, 20 for its frame pointer, one each for the rest. */
static bool pack(const struct rules *rules, uint64_t *packed)
{
    enum { MOST = 1 << 19 };
    int32_t offset = rules->offset / 8, frame_at = -rules->frame_at / 8;
    if (rules->return_at != -8 || offset <= 0 || offset >= MOST || frame_at < 0 || frame_at >= MOST) return false;
    const uint64_t by_frame = rules->by_frame, is_saved = rules->is_frame_saved, is_set = 1;
    *packed = (uint64_t)offset | (uint64_t)frame_at << 20 | by_frame << 40 | is_saved << 41 | is_set << 63;
    return true;
}

/* Each word relaxed: an entry that two threads write at once is found to fit neither pc. */
static struct {
    _Atomic(uint64_t) pc_and_rules, rules;
} cache[CACHE_ENTRIES];

static bool rules_of(uintptr_t pc, uint64_t *packed)
{
    uint32_t at = (uint32_t)(bits_mix(pc) % CACHE_ENTRIES);
    *packed = atomic_load_explicit(&cache[at].rules, memory_order_relaxed);
    if (*packed != 0 && (atomic_load_explicit(&cache[at].pc_and_rules, memory_order_relaxed) ^ *packed) == pc)
        return true;
    struct rules rules;
    for (uint32_t i = 0; i < file_count; i++) {
        if (pc - files[i].low >= files[i].high - files[i].low) continue;
        if (!find_rules(&files[i], pc, &rules) || !pack(&rules, packed)) return false;
        atomic_store_explicit(&cache[at].rules, *packed, memory_order_relaxed);
        atomic_store_explicit(&cache[at].pc_and_rules, *packed ^ pc, memory_order_relaxed);
        return true;
    }
    return false;
}

bool cfi_step(struct cfi_frame *frame, bool is_call, uintptr_t end)
{
    enum { WORD_BYTES = 8, OFFSET_MASK = (1 << 20) - 1 };
    uint64_t packed;
    if (!rules_of(frame->pc - is_call, &packed)) return false;
    uintptr_t stack = ((packed >> 40 & 1) != 0 ? frame->frame : frame->stack) + (packed & OFFSET_MASK) * WORD_BYTES;
    uintptr_t frame_at = stack - (packed >> 20 & OFFSET_MASK) * WORD_BYTES;
    if (stack <= frame->stack || stack > end || stack % WORD_BYTES != 0) return false;
    if ((packed >> 41 & 1) != 0 && (frame_at < frame->stack || frame_at >= stack)) return false;
    if ((packed >> 41 & 1) != 0) frame->frame = *(const uintptr_t *)frame_at;
    frame->pc = *(const uintptr_t *)(stack - WORD_BYTES);
    frame->stack = stack;
    return true;
}

#else

void cfi_start(cfi_stays_fn *stays)
{
    (void)stays;
}

bool cfi_is_runtime(uintptr_t address)
{
    (void)address;
    return false;
}

bool cfi_step(struct cfi_frame *frame, bool is_call, uintptr_t end)
{
    (void)frame;
    (void)is_call;
    (void)end;
    return false;
}

#endif
