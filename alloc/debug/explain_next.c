/* explain_next.c: see explain_next.h. */
#include "debug/explain_next.h"

#include <stdbool.h>
#include <string.h>

#include "debug/trace.h"
#include "os/process/file.h"
#include "report/settings.h"
#include "report/text.h"

enum { COMMAND_BYTES_MAX = 2048, ENTRY_BYTES_MAX = 512 };

/* The command line and LD_PRELOAD as they were when the process started. They are copied, since a program may overwrite
 * both. */
static char command[COMMAND_BYTES_MAX], preload[ENTRY_BYTES_MAX];
static size_t command_bytes; /* 0: not known */
static bool has_preload;

/* Reads the words of the command line, each ended by a zero byte. Returns their length; 0: they are too long, or cannot
 * be read. */
static size_t read_command(char *words)
{
    const size_t length = file_read("/proc/self/cmdline", words, COMMAND_BYTES_MAX);
    return length == COMMAND_BYTES_MAX || length == 0 || words[length - 1] != '\0' ? 0 : length;
}

/* Keeps the value of LD_PRELOAD, unless it is too long. */
static bool visit_entry(const char *entry, size_t length, void *unused)
{
    static const char name[] = "LD_PRELOAD=";
    (void)unused;
    has_preload = length < ENTRY_BYTES_MAX && strncmp(entry, name, sizeof name - 1) == 0;
    if (has_preload) strcpy(preload, entry + sizeof name - 1);
    return has_preload;
}

void explain_next_start(void)
{
    char entry[ENTRY_BYTES_MAX];
    command_bytes = read_command(command);
    file_each("/proc/self/environ", '\0', entry, sizeof entry, visit_entry, NULL);
}

static void add_words(struct text *text, const char *words, size_t length)
{
    for (size_t at = 0; at < length; at += strlen(words + at) + 1) {
        text_add(text, " ");
        text_add_word(text, words + at);
    }
}

/* Adds the gdb command. It sets LD_PRELOAD in the program's environment only, not in gdb's own. */
static void add_debugger(struct text *text)
{
    text_add(text, "gdb");
    if (has_preload) text_print(text, " -ex 'set environment LD_PRELOAD %s'", preload);
    text_add(text, " -ex run --args");
}

/* The kinds leak and never_written are found only with the variable that asks for them. */
static void add_again(struct text *text)
{
    if (has_preload) {
        text_add(text, "LD_PRELOAD=");
        text_add_word(text, preload);
        text_add(text, " ");
    }
    if (failfast_wants_leaks()) text_add(text, "HAKMEM_FAILFAST_LEAKS=1 ");
    if (failfast_fill() >= 0) text_print(text, "HAKMEM_FAILFAST_FILL=%d ", failfast_fill());
    text_add(text, "HAKMEM_FAILFAST_LEVEL=3");
}

void explain_next(struct text *text, enum failfast_kind kind, const struct failfast_event *const *events,
                  uint32_t event_count)
{
    bool wants_debugger = kind == FAILFAST_law || kind == FAILFAST_heap_not_held;
    text_add(text, "hakmem:   next: ");
    /* Below level 3 a second run says more than the one stack that is known. */
    if (wants_debugger || !trace_is_on() || !trace_add_command(text, events, event_count)) {
        if (command_bytes == 0) {
            text_add(text, wants_debugger ? "run again under a debugger"
                                          : "run again with HAKMEM_FAILFAST_LEVEL=3 in the environment");
        } else if (wants_debugger) {
            add_debugger(text);
        } else {
            add_again(text);
        }
        add_words(text, command, command_bytes);
    }
    text_add(text, "\n");
}
