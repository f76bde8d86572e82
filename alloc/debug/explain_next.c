/* explain_next.c: see explain_next.h. */
#include "debug/explain_next.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "debug/trace.h"
#include "os/call.h"
#include "report/settings.h"
#include "report/text.h"

enum { COMMAND_BYTES_MAX = 2048, ENTRY_BYTES_MAX = 512 };

/* The command line and LD_PRELOAD as they were when the process started. They are copied, since a program may overwrite
 * both. */
static char command[COMMAND_BYTES_MAX], preload_entry[ENTRY_BYTES_MAX];
static size_t command_bytes; /* 0: not known */
static bool has_preload;

/* Reads the words of the command line, each ended by a zero byte. Returns their length; 0: they are too long, or cannot
 * be read. */
/* files: at the start of the debug-validation build */
static size_t read_command(char *words)
{
    int file = call_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0); /* if that fails, so does read */
    size_t length = 0;
    intptr_t got;
    while ((got = call_read(file, words + length, COMMAND_BYTES_MAX - length)) > 0 || got == -EINTR)
        if (got > 0) length += (size_t)got;
    call_close(file);
    return length == COMMAND_BYTES_MAX || length == 0 || words[length - 1] != '\0' ? 0 : length;
}

/* Reads the value of LD_PRELOAD. False: it is not set, or too long. */
/* files: at the start of the debug-validation build */
static bool read_preload(char *value)
{
    static const char name[] = "LD_PRELOAD=";
    int file = call_open("/proc/self/environ", O_RDONLY | O_CLOEXEC, 0); /* if that fails, so does read */
    char chunk[ENTRY_BYTES_MAX], entry[ENTRY_BYTES_MAX];
    size_t length = 0;
    intptr_t got;
    bool is_found = false;
    while (!is_found && ((got = call_read(file, chunk, sizeof chunk)) > 0 || got == -EINTR))
        for (intptr_t i = 0; i < got && !is_found; i++) {
            if (length < sizeof entry) entry[length] = chunk[i];
            length++;
            if (chunk[i] != '\0') continue;
            is_found = length <= sizeof entry && strncmp(entry, name, sizeof name - 1) == 0;
            length = is_found ? length : 0;
        }
    call_close(file);
    if (is_found) memcpy(value, entry + sizeof name - 1, length - (sizeof name - 1));
    return is_found;
}

void explain_next_start(void)
{
    command_bytes = read_command(command);
    has_preload = read_preload(preload_entry);
}

static void add_words(struct text *text, const char *words, size_t length)
{
    for (size_t at = 0; at < length; at += strlen(words + at) + 1) {
        text_add(text, " ");
        text_add_word(text, words + at);
    }
}

/* Adds the gdb command. It sets LD_PRELOAD in the program's environment only, not in gdb's own. */
static void add_debugger(struct text *text, const char *preload)
{
    text_add(text, "gdb");
    if (preload != NULL) text_print(text, " -ex 'set environment LD_PRELOAD %s'", preload);
    text_add(text, " -ex run --args");
}

/* The kinds leak and never_written are found only with the variable that asks for them. */
static void add_again(struct text *text, const char *preload)
{
    if (preload != NULL) {
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
    const char *preload = has_preload ? preload_entry : NULL;
    text_add(text, "hakmem:   next: ");
    /* Below level 3 a second run says more than the one stack that is known. */
    if (wants_debugger || !trace_is_on() || !trace_add_command(text, events, event_count)) {
        if (command_bytes == 0) {
            text_add(text, wants_debugger ? "run again under a debugger"
                                          : "run again with HAKMEM_FAILFAST_LEVEL=3 in the environment");
        } else if (wants_debugger) {
            add_debugger(text, preload);
        } else {
            add_again(text, preload);
        }
        add_words(text, command, command_bytes);
    }
    text_add(text, "\n");
}
