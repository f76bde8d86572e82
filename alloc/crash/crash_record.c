/* crash_record.c: see crash_record.h. No lock, no allocation, no stdio. It reads memory that the crash may have damaged
 * through os_peek; code that might still fault runs as a step of crash_try. */
#include "crash/crash_record.h"

#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/policy.h"
#include "crash/crash_modules.h"
#include "crash/crash_origin.h"
#include "crash/crash_try.h"
#include "crash/record_write.h"
#include "debug/describe.h"
#include "guard/guard.h"
#include "guard/guard_report.h"
#include "hakmem/crash.h"
#include "hakmem/hakmem.h"
#include "os/call.h"
#include "os/process/clock.h"
#include "os/libc.h"
#include "os/os.h"
#include "os/peek.h"
#include "os/registers.h"
#include "report/failfast.h"
#include "report/modules.h"

enum {
    FRAMES_MAX = 128,
    MODULES_BYTES_MAX = 64 * 1024,
    OPERATIONS_BYTES_MAX = 96 * 1024,
    TEXT_BYTES_MAX = 4096,
};

static unsigned char buffer[RECORD_BYTES_MAX];
static struct record_writer writer;
static struct hak_crash_facts context;
static struct os_register registers[OS_REGISTERS_MAX];
static size_t register_count;

void crash_record_prepare(void)
{
    void *frame;
    os_backtrace(&frame, 1);
    modules_start();
    origin_keep();
}

void crash_record_set_context(const struct hak_crash_facts *new_context)
{
    context = new_context == NULL ? (struct hak_crash_facts){.seed = NULL} : *new_context;
}

/* --- where the thread stopped ------------------------------------------------------------------------------------- */

struct frames {
    void *of_handler[FRAMES_MAX];
    int count;
};

static struct frames frames;

static void unwind(void *unused)
{
    (void)unused;
    frames.count = os_backtrace(frames.of_handler, FRAMES_MAX);
}

/* A backtrace without the unwinder: the word at the stack pointer, where a call to a bad address has left its return
 * address, and then the chain of frame pointers, as long as it rises. */
static void walk_frame_pointers(const void *signal_context)
{
    bool readable;
    uint64_t link = os_link_register(signal_context);
    if (link == 0) link = os_peek_word((const void *)(uintptr_t)registers[OS_REGISTER_SP].value, &readable);
    record_add_number(&writer, link);
    uint64_t frame = registers[OS_REGISTER_FP].value;
    for (int i = 0; i < FRAMES_MAX && frame % 8 == 0; i++) {
        uint64_t two[2];
        if (!os_peek((const void *)(uintptr_t)frame, two, sizeof two) || two[1] == 0) return;
        if (two[1] != link) record_add_number(&writer, two[1]);
        if (two[0] <= frame) return;
        frame = two[0];
    }
}

/* Writes the frames from the program counter on. The unwinder starts in the handler, so the frames before that are
 * ours. */
static void write_backtrace(const void *signal_context)
{
    uint64_t pc = registers[OS_REGISTER_PC].value;
    record_open(&writer, RECORD_backtrace);
    record_add_number(&writer, pc);
    int next = 0;
    bool found = false;
    if (crash_try(unwind, NULL))
        while (!found && next + 1 < frames.count) found = (uint64_t)(uintptr_t)frames.of_handler[next++] == pc;
    if (found) {
        for (int i = next; i < frames.count; i++) record_add_number(&writer, (uint64_t)(uintptr_t)frames.of_handler[i]);
    } else {
        walk_frame_pointers(signal_context);
    }
    record_close(&writer);
}

static void write_registers(void)
{
    for (size_t i = 0; i < register_count; i++) {
        record_open(&writer, RECORD_register);
        record_add_number(&writer, registers[i].value);
        record_add(&writer, registers[i].name, strlen(registers[i].name));
        record_close_whole(&writer);
    }
}

/* --- what the heap knows ---------------------------------------------------------------------------------- */

static void write_place(uint64_t address, const char *what)
{
    struct describe_place place;
    bool known = describe_address(address, &place);
    if (!known && strcmp(what, "fault") != 0 && strcmp(what, "free") != 0) return;
    record_open(&writer, RECORD_place);
#define X(name, text) record_add_number(&writer, place.name);
    RECORD_PLACE(X)
#undef X
    for (uint64_t i = 0; i < place.word_count; i++) record_add_number(&writer, place.words[i]);
    unsigned char length = (unsigned char)strlen(what);
    record_add(&writer, &length, 1);
    record_add(&writer, what, length);
    record_close_whole(&writer);
}

static void add_calls(const uintptr_t *calls, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) record_add_number(&writer, crash_modules_address(calls[i]));
}

/* Writes what a sampled block has found, at the fault's address or in the free that ends the process. */
static void write_guard(const struct guard_history *history)
{
    const struct guard_event *allocated = &history->allocated, *freed = &history->freed;
    const uint64_t numbers[] = {history->address,    (uint64_t)history->finding, history->start,
                                history->size_bytes, (uint64_t)history->state,   allocated->thread,
                                freed->thread,       allocated->count,           freed->count};
    static_assert(sizeof numbers / sizeof numbers[0] == RECORD_GUARD_NUMBERS, "one for each in RECORD_GUARD");
    record_open(&writer, RECORD_guard);
    for (size_t i = 0; i < RECORD_GUARD_NUMBERS; i++) record_add_number(&writer, numbers[i]);
    add_calls(allocated->frames, allocated->count);
    add_calls(freed->frames, freed->count);
    record_close_whole(&writer);
}

static void write_short_text(const char *text)
{
    unsigned char length = (unsigned char)strnlen(text, UCHAR_MAX);
    record_add(&writer, &length, 1);
    record_add(&writer, text, length);
}

/* Writes what the failed check has found, if this is its abort. */
static void write_failfast(void *unused)
{
    (void)unused;
    if (!VALIDATE) return;
    const char *report;
    size_t report_bytes;
    const struct failfast_find *find = failfast_kept(&report, &report_bytes);
    if (find == NULL) return;
    const struct failfast_event *allocated = &find->allocated, *freed = &find->freed;
    const uint64_t numbers[] = {(uintptr_t)find->address,
                                find->kind,
                                find->state,
                                find->class_index,
                                (uintptr_t)find->block_start,
                                find->block_bytes,
                                (uintptr_t)find->bad_address,
                                find->bad_bytes,
                                find->value,
                                allocated->thread,
                                freed->thread,
                                allocated->count,
                                freed->count};
    static_assert(sizeof numbers / sizeof numbers[0] == RECORD_FAILFAST_NUMBERS, "one for each in RECORD_FAILFAST");
    record_open(&writer, RECORD_failfast);
    for (size_t i = 0; i < RECORD_FAILFAST_NUMBERS; i++) record_add_number(&writer, numbers[i]);
    add_calls(allocated->frames, allocated->count);
    add_calls(freed->frames, freed->count);
    write_short_text(find->name);
    write_short_text(find->text);
    write_short_text(find->call);
    record_close_whole(&writer);
    record_bytes(&writer, RECORD_failfast_report, report, report_bytes);
}

struct fault {
    bool has_address;
    uint64_t address;
    int signal_number;
};

static void write_guards(void *fault_pointer)
{
    const struct fault *fault = fault_pointer;
    static struct guard_history history;
    if (fault->has_address && guard_find(fault->address, &history)) {
        write_guard(&history);
    } else if (fault->signal_number == SIGABRT && guard_misuse(&history)) {
        write_place(history.address, "free");
        write_guard(&history);
    }
}

static void write_places(void *fault_pointer)
{
    const struct fault *fault = fault_pointer;
    if (fault->has_address) write_place(fault->address, "fault");
    for (size_t i = 0; i < register_count; i++) write_place(registers[i].value, registers[i].name);
}

static void write_suspect(void *unused)
{
    (void)unused;
    struct describe_suspect suspect;
    if (!describe_bad_link(&suspect)) return;
    record_number(&writer, RECORD_suspect_address, (uint64_t)(uintptr_t)suspect.word);
    record_number(&writer, RECORD_suspect_value, suspect.value);
    record_number(&writer, RECORD_suspect_class, suspect.class_index);
    record_text(&writer, RECORD_suspect_text, suspect.text);
    for (uint32_t i = 0; i < suspect.copy_count; i++)
        record_number(&writer, RECORD_suspect_copy, (uint64_t)(uintptr_t)suspect.copies[i]);
}

/* Runs a step that writes fields. If it faults, the fields that it has completed stay, and the open one is dropped. */
static void try_to_write(void (*step)(void *), void *argument, enum record_field field)
{
    if (crash_try(step, argument)) return;
    record_drop(&writer);
    record_cut(&writer, field);
}

/* --- which process it was
 * ------------------------------------------------------------------------------------------ */

static void write_module(const struct crash_module *module, void *end)
{
    /* An address of code, since .bss may be in a mapping without a name. */
    uint64_t here = (uint64_t)(uintptr_t)crash_record_make;
    uint64_t headers = os_told(AT_PHDR);
    if (here >= module->start && here < module->end) {
        record_text(&writer, RECORD_library, module->path);
        record_bytes(&writer, RECORD_library_build_id, module->build_id, module->build_id_bytes);
    }
    if (headers >= module->start && headers < module->end)
        record_bytes(&writer, RECORD_program_build_id, module->build_id, module->build_id_bytes);
    if (writer.used_bytes > *(const size_t *)end) {
        record_cut(&writer, RECORD_module);
        return;
    }
    unsigned char id_bytes = (unsigned char)module->build_id_bytes;
    record_open(&writer, RECORD_module);
    record_add_number(&writer, module->base);
    record_add_number(&writer, module->start);
    record_add_number(&writer, module->end);
    record_add(&writer, &id_bytes, 1);
    record_add(&writer, module->build_id, id_bytes);
    record_add(&writer, module->path, strlen(module->path));
    record_close_whole(&writer);
}

static void write_modules(void *unused)
{
    (void)unused;
    size_t end = writer.used_bytes + MODULES_BYTES_MAX;
    crash_modules_for_each(write_module, &end);
}

/* files: when the process crashes */
static void write_link(enum record_field field, const char *path)
{
    static char target[TEXT_BYTES_MAX];
    intptr_t length = call_readlink(path, target, sizeof target);
    if (length > 0) record_bytes(&writer, field, target, (size_t)length);
}

static void write_process(void)
{
    char name[16] = "";
    struct timespec now;
    call_prctl(PR_GET_NAME, (intptr_t)name, 0, 0, 0);
    clock_read(CLOCK_REALTIME, &now);
    record_number(&writer, RECORD_process, (uint64_t)call_getpid());
    record_number(&writer, RECORD_thread, (uint64_t)call_gettid());
    record_bytes(&writer, RECORD_thread_name, name, strnlen(name, sizeof name));
    record_number(&writer, RECORD_time_ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    record_text(&writer, RECORD_architecture, os_architecture());
    record_text(&writer, RECORD_library_version, VALIDATE ? HAKMEM_VERSION " validate" : HAKMEM_VERSION " release");
    write_link(RECORD_program, "/proc/self/exe");
    write_link(RECORD_directory, "/proc/self/cwd");
}

/* --- facts of the host program -------------------------------------------------------------------------- */

static void write_number_at(enum record_field field, const uint64_t *number)
{
    uint64_t value;
    if (os_peek(number, &value, sizeof value)) record_number(&writer, field, value);
}

static void write_reproduce(void *unused)
{
    (void)unused;
    const char *text = context.reproduce;
    if (text != NULL) record_bytes(&writer, RECORD_reproduce, text, strnlen(text, TEXT_BYTES_MAX));
}

static void write_operations(void *unused)
{
    (void)unused;
    if (context.operations == NULL) return;
    record_open(&writer, RECORD_operations);
    size_t room = record_room(&writer);
    if (room > OPERATIONS_BYTES_MAX) room = OPERATIONS_BYTES_MAX;
    size_t took = context.operations((char *)record_here(&writer), room);
    record_took(&writer, took < room ? took : room);
    record_close(&writer);
}

const void *crash_record_make(int signal_number, const siginfo_t *info, const void *signal_context, size_t *size_bytes)
{
    register_count = os_registers(signal_context, registers);
    crash_modules_look();
    record_begin(&writer, buffer, sizeof buffer);
    record_number(&writer, RECORD_signal, (uint64_t)signal_number);
    record_number(&writer, RECORD_signal_code, (uint64_t)(int64_t)info->si_code);
    /* With other codes below 1, such as SI_TIMER, si_pid is not a process id. */
    if (info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE)
        record_number(&writer, RECORD_signal_sender, (uint64_t)info->si_pid);
    struct fault fault = {.has_address = crash_has_address(signal_number, info),
                          .address = (uint64_t)(uintptr_t)info->si_addr,
                          .signal_number = signal_number};
    if (fault.has_address) record_number(&writer, RECORD_fault_address, fault.address);
    write_registers();
    write_backtrace(signal_context);
    try_to_write(write_suspect, NULL, RECORD_suspect_address);
    try_to_write(write_guards, &fault, RECORD_guard);
    if (VALIDATE && signal_number == SIGABRT) try_to_write(write_failfast, NULL, RECORD_failfast);
    try_to_write(write_places, &fault, RECORD_place);
    write_process();
    write_number_at(RECORD_seed, context.seed);
    write_number_at(RECORD_clock, context.clock);
    write_number_at(RECORD_schedule_hash, context.schedule_hash);
    try_to_write(write_reproduce, NULL, RECORD_reproduce);
    struct record_writer before = writer;
    if (!crash_try(write_modules, NULL)) {
        writer = before;
        crash_modules_forget();
        try_to_write(write_modules, NULL, RECORD_module);
    }
    try_to_write(write_operations, NULL, RECORD_operations);
    origin_write(&writer);
    *size_bytes = record_finish(&writer);
    return buffer;
}
