/* os_fault.c: see os_fault.h. Tests only: not a part of any library. */
#include "os/os_fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "os/os.h"

static const struct os_ops *below; /* the table that was there */
static uint64_t fail_nth;
static bool fail_for_ever;
/* relaxed everywhere: the counters order nothing. */
static _Atomic(uint64_t) calls;
static _Atomic(uint64_t) failures;

static bool fails(void)
{
    uint64_t call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
    bool fail = fail_nth != 0 && (call == fail_nth || (fail_for_ever && call > fail_nth));
    if (fail) atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed);
    return fail;
}

static void *fault_reserve(void *at, size_t size_bytes, size_t align_bytes)
{
    return fails() ? NULL : below->reserve(at, size_bytes, align_bytes);
}

static void *fault_map(void *at, size_t size_bytes, size_t align_bytes)
{
    return fails() ? NULL : below->map(at, size_bytes, align_bytes);
}

static int fault_expose(void *start, size_t size_bytes)
{
    return fails() ? ENOMEM : below->expose(start, size_bytes);
}

static int fault_commit(void *start, size_t size_bytes)
{
    return fails() ? ENOMEM : below->commit(start, size_bytes);
}

static int fault_purge(void *start, size_t size_bytes)
{
    return fails() ? EINVAL : below->purge(start, size_bytes);
}

static int fault_seal(void *start, size_t size_bytes)
{
    return fails() ? ENOMEM : below->seal(start, size_bytes);
}

static int fault_release(void *start, size_t size_bytes)
{
    return fails() ? ENOMEM : below->release(start, size_bytes);
}

static int fault_grow(void *start, size_t old_bytes, size_t new_bytes)
{
    return fails() ? ENOMEM : below->grow(start, old_bytes, new_bytes);
}

static int fault_move(void *start, size_t old_bytes, void *target, size_t new_bytes)
{
    return fails() ? ENOMEM : below->move(start, old_bytes, target, new_bytes);
}

static size_t fault_page_bytes(void)
{
    return below->page_bytes();
}

static const struct os_ops fault_ops = {
    .reserve = fault_reserve,
    .map = fault_map,
    .expose = fault_expose,
    .commit = fault_commit,
    .purge = fault_purge,
    .seal = fault_seal,
    .release = fault_release,
    .grow = fault_grow,
    .move = fault_move,
    .page_bytes = fault_page_bytes,
};

void os_fault_install(uint64_t nth, bool for_ever)
{
    fail_nth = nth;
    fail_for_ever = for_ever;
    atomic_store_explicit(&calls, 0, memory_order_relaxed);
    atomic_store_explicit(&failures, 0, memory_order_relaxed);
    if (os != &fault_ops) below = os;
    os = &fault_ops;
}

uint64_t os_fault_remove(void)
{
    os = below;
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

uint64_t os_fault_failures(void)
{
    return atomic_load_explicit(&failures, memory_order_relaxed);
}
