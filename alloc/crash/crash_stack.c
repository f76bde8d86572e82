/* crash_stack.c: see crash_stack.h. */
#include "crash/crash_stack.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/policy.h"
#include "os/call.h"
#include "os/os.h"

enum { STACK_BYTES = 128 * 1024 }; /* for the kernel's frame, the unwinder, and one previous handler */

static HAK_TLS char *stack; /* this thread's stack; it begins with a page that faults */

/* relaxed everywhere: for a thread that begins just then, either value will do. */
static _Atomic(bool) is_wanted;

void crash_stack_want(bool wanted)
{
    atomic_store_explicit(&is_wanted, wanted, memory_order_relaxed);
}

static void give(void)
{
    stack_t now = {.ss_flags = 0};
    if (!atomic_load_explicit(&is_wanted, memory_order_relaxed)) return;
    if (HAK_MINE(stack) != NULL || call_sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
    size_t guard_bytes = os_page_bytes();
    const intptr_t mapped = call_mmap(NULL, guard_bytes + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (call_failed(mapped)) return;
    char *start = (char *)mapped;
    stack_t ours = {.ss_sp = start + guard_bytes, .ss_size = STACK_BYTES};
    if (call_mprotect(start + guard_bytes, STACK_BYTES, PROT_READ | PROT_WRITE) != 0 ||
        call_sigaltstack(&ours, NULL) != 0) {
        /* unreached: the system refuses what it gave a moment ago: no room for a mapping more */
        call_munmap(start, guard_bytes + STACK_BYTES);
        return;
    }
    HAK_MINE(stack) = start;
}

/* Takes the stack back. If the program has set another one since, that one stays. */
static void take(void)
{
    if (HAK_MINE(stack) == NULL) return;
    stack_t now = {.ss_flags = 0}, none = {.ss_flags = SS_DISABLE};
    size_t guard_bytes = os_page_bytes();
    bool is_ours = call_sigaltstack(NULL, &now) == 0 && now.ss_sp == HAK_MINE(stack) + guard_bytes;
    if (is_ours && call_sigaltstack(&none, NULL) != 0) return; /* refused while this runs on the stack */
    call_munmap(HAK_MINE(stack), guard_bytes + STACK_BYTES);
    HAK_MINE(stack) = NULL;
}

void crash_stack(bool begins)
{
    if (begins) give();
    else take();
}
