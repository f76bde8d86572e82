/* guard_report.c: writes what a sampled block has found: a line, and the stacks that allocated and freed it. See guard.h. */
#include <stdlib.h>

#include "guard/guard_report.h"
#include "os/os.h"
#include "report/modules.h"
#include "report/place.h"
#include "report/text.h"

static HAK_TLS const void *misused_pointer;
static HAK_TLS enum record_finding misused_finding;

static void add_thread(struct text *text, const char *what, const struct guard_event *event)
{
    if (event->thread != 0) text_print(text, "%s%u", what, event->thread);
}

static void add_distance(struct text *text, const struct guard_history *history)
{
    uint64_t start = history->start, end = start + history->size_bytes, address = history->address;
    bool is_before = address < start, is_behind = address >= end;
    text_print(text, "%lu bytes %s",
               is_before   ? start - address
               : is_behind ? address - end
                           : address - start,
               is_before   ? "before"
               : is_behind ? "past the end of"
                           : "into");
}

/* The first of the program's own frames: the library's come before them. */
static uint32_t first_frame(const struct guard_event *event)
{
    const struct module *own = modules_find((uintptr_t)guard_say);
    uint32_t first = 0;
    if (own == NULL || own == modules_get(0)) return 0; /* linked into the program */
    while (first < event->count && modules_find(event->frames[first]) == own) first++;
    return first;
}

static void say_stack(const char *what, const struct guard_event *event)
{
    char line[MODULE_PATH_MAX + 128];
    for (uint32_t i = first_frame(event); i < event->count; i++) {
        struct text text = {.bytes = line, .size = sizeof line};
        const uintptr_t call = event->frames[i] - 1; /* a frame is where the call returns to */
        const struct module *module = modules_find(call);
        text_print(&text, "%shakmem:     ", what);
        if (module != NULL) place_add(&text, module, call);
        else text_print(&text, "%p", (const void *)call);
        text_add(&text, "\n");
        os_write_error(text.bytes, text.length);
        what = "";
    }
}

/* The calls of the program itself in the stacks, for a command to copy. */
static void say_next(const struct guard_history *history)
{
    const struct guard_event *const events[] = {&history->allocated, &history->freed};
    const struct module *program = modules_get(0);
    char line[MODULE_PATH_MAX + 128 + 2 * GUARD_FRAMES * 20];
    struct text text = {.bytes = line, .size = sizeof line};
    text_add(&text, "hakmem:   next: addr2line -Cfipe ");
    text_add_word(&text, program->path);
    const size_t before = text.length;
    for (int of = 0; of < 2; of++)
        for (uint32_t i = first_frame(events[of]); i < events[of]->count; i++) {
            const uintptr_t call = events[of]->frames[i] - 1;
            if (modules_find(call) != program) continue;
            text_print(&text, " %#lx", call - program->image.base);
        }
    if (text.length == before) return;
    text_add(&text, "\n");
    os_write_error(text.bytes, text.length);
}

void guard_say(const struct guard_history *history)
{
    static const char *const subjects[] = {
        [RECORD_FINDING_none] = "a fault ",
        [RECORD_FINDING_past_end] = "a read or write ",
        [RECORD_FINDING_before] = "a read or write ",
        [RECORD_FINDING_use_after] = "a read or write ",
        [RECORD_FINDING_freed_twice] = "free or realloc once more, ",
        [RECORD_FINDING_freed_inside] = "free or realloc of a pointer that is no block's start, ",
    };
    char line[320];
    struct text text = {.bytes = line, .size = sizeof line};
    text_print(&text, "hakmem: guard: %s", subjects[history->finding]);
    if (history->start == 0) {
        text_print(&text, "at %p, where no block has been", (const void *)(uintptr_t)history->address);
    } else {
        add_distance(&text, history);
        text_print(&text, " a %s block of %lu bytes at %p", history->state == RECORD_STATE_freed ? "freed" : "live",
                   history->size_bytes, (const void *)(uintptr_t)history->start);
        add_thread(&text, "; allocated by thread ", &history->allocated);
        add_thread(&text, ", freed by thread ", &history->freed);
    }
    text_add(&text, "\n");
    os_write_error(text.bytes, text.length);
    if (modules_count() == 0 || history->start == 0) return; /* modules are known once the crash handler is installed */
    say_stack("hakmem:   allocated at\n", &history->allocated);
    say_stack("hakmem:   freed at\n", &history->freed);
    say_next(history);
}

/* gate: free of a guarded block that is wrong: a report, and the process ends */
HAK_NORETURN HAK_COLD void guard_misused(const void *pointer, enum record_finding finding)
{
    struct guard_history history;
    HAK_MINE(misused_pointer) = pointer;
    HAK_MINE(misused_finding) = finding;
    if (guard_misuse(&history)) guard_say(&history);
    abort();
}

bool guard_misuse(struct guard_history *history)
{
    if (HAK_MINE(misused_pointer) == NULL) return false;
    guard_find((uint64_t)(uintptr_t)HAK_MINE(misused_pointer), history);
    history->finding = HAK_MINE(misused_finding);
    return true;
}

void guard_misuse_forget(void)
{
    HAK_MINE(misused_pointer) = NULL;
}
