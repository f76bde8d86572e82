/* broken.c: see broken.h. */
#include "report/broken.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/sizeclass.h"
#include "os/call.h"
#include "os/os.h"
#include "report/text.h"

enum { LINE_BYTES = 320 };

static const char *const texts[] = {
#define X(name, text) [BROKEN_##name] = text,
    BROKEN_BOUNDS(X)
#undef X
};

/* Belongs to the first thread that finds a broken list; no other thread reads or writes it. One is enough, since the
 * crash handler writes one record at a time. It is not thread-local, since a program that loads the library late has
 * little room for thread-local variables. */
static struct broken_facts facts;
static _Atomic(int32_t) facts_thread; /* the thread that has them; 0: none */

static bool facts_are_mine(void)
{
    int32_t self = call_gettid(), holder = 0;
    /* relaxed: no other thread ever reads the facts. */
    return atomic_compare_exchange_strong_explicit(&facts_thread, &holder, self, memory_order_relaxed,
                                                   memory_order_relaxed) ||
           holder == self;
}

/* gate: the heap is broken: one line, and the process ends */
HAK_NORETURN HAK_COLD void broken(enum broken_bound bound, uint32_t class_index, const void *address)
{
    char line[LINE_BYTES];
    struct text text = {line, sizeof line, 0};
    if (facts_are_mine()) facts = (struct broken_facts){texts[bound], address, class_index};
    const uint32_t block_bytes = class_index < CLASS_COUNT ? sizeclass_bytes(class_index) : 0;
    text_print(&text, "hakmem: broken: class %u (%u bytes): %s; ", class_index, block_bytes, texts[bound]);
    text_print(&text, "found at %p: a block was freed twice, or written to after free\n", address);
    os_write_error(text.bytes, text.length);
    abort();
}

struct broken_facts broken_take(void)
{
    struct broken_facts taken = {.text = NULL};
    /* relaxed: only equality with this thread's own id matters, and this thread wrote that itself. */
    if (atomic_load_explicit(&facts_thread, memory_order_relaxed) != call_gettid()) return taken;
    taken = facts;
    facts.text = NULL;
    return taken;
}
