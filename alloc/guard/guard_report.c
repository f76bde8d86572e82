/* guard_report.c: writes what a sampled block has found as one line. See guard.h. */
#include <stdlib.h>

#include "guard/guard_report.h"
#include "os/os.h"
#include "report/text.h"

static HAK_TLS const void *misused_pointer;
static HAK_TLS enum record_finding misused_finding;

static void add_thread(struct text *text, const char *what, const struct guard_event *event)
{
    if (event->thread == 0) return;
    text_add(text, what);
    text_add_number(text, event->thread);
}

static void add_distance(struct text *text, const struct guard_history *history)
{
    uint64_t start = history->start, end = start + history->size_bytes, address = history->address;
    bool is_before = address < start, is_behind = address >= end;
    text_add_number(text, is_before ? start - address : is_behind ? address - end : address - start);
    text_add(text, is_before ? " bytes before" : is_behind ? " bytes past the end of" : " bytes into");
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
    text_add(&text, "hakmem: guard: ");
    text_add(&text, subjects[history->finding]);
    if (history->start == 0) {
        text_add(&text, "at ");
        text_add_address(&text, (const void *)(uintptr_t)history->address);
        text_add(&text, ", where no block has been");
    } else {
        add_distance(&text, history);
        text_add(&text, history->state == RECORD_STATE_freed ? " a freed block of " : " a live block of ");
        text_add_number(&text, history->size_bytes);
        text_add(&text, " bytes at ");
        text_add_address(&text, (const void *)(uintptr_t)history->start);
        add_thread(&text, "; allocated by thread ", &history->allocated);
        add_thread(&text, ", freed by thread ", &history->freed);
    }
    text_add(&text, "\n");
    os_write_error(text.bytes, text.length);
}

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
