/* checked.c: what only the debug-validation library has: blocks that wait after free. */
#include "order/inside/scenarios.h"

#include "debug/fault/sealed.h"
#include "debug/frame.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "debug/quarantine.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "report/settings.h"

static char *users[2], *starts[2];

static void make_framed(size_t bytes)
{
    hak_free(hak_malloc(64));
    for (int i = 0; i < 2; i++) {
        users[i] = frame_alloc(FAMILY_MALLOC, 0, bytes, false);
        starts[i] = heap_lookup(users[i]).start;
    }
}

static void release(unsigned thread)
{
    frame_free(users[thread], (struct frame_said){FAMILY_MALLOC, false, false, 0, 0});
}

void scenario_ring_begin(void)
{
    make_framed(100);
}

void scenario_ring(unsigned thread)
{
    release(thread);
    quarantine_holds(starts[1 - thread]);
}
SCENARIO_LAW_NONE(ring)

void scenario_ring_empty_begin(void)
{
    make_framed(100);
}

void scenario_ring_empty(unsigned thread)
{
    if (thread == 0) release(0);
    else quarantine_empty();
}
SCENARIO_LAW_NONE(ring_empty)

void scenario_ring_finish_begin(void)
{
    make_framed(100);
}

void scenario_ring_finish(unsigned thread)
{
    if (thread == 0) release(0);
    else quarantine_finish();
}
SCENARIO_LAW_NONE(ring_finish)

static struct framed large[2];

void scenario_sealed_begin(void)
{
    make_framed(64 * 1024);
    sealed_start();
    for (int i = 0; i < 2; i++) {
        const struct lookup found = heap_lookup(users[i]);
        frame_read(&found, users[i], &large[i]);
    }
}

void scenario_sealed(unsigned thread)
{
    if (thread == 0) release(0);
    else sealed_empty();
}
SCENARIO_LAW_NONE(sealed)

void scenario_sealed_find_begin(void)
{
    scenario_sealed_begin();
}

/* A thread that uses a block that another one has freed. */
void scenario_sealed_find(unsigned thread)
{
    struct framed found;
    char *middle = large[0].user + large[0].word.size_bytes / 2;
    if (thread == 0) release(0);
    else if (sealed_find(middle, &found) && found.bytes != large[0].bytes)
        order_fail("a sealed block is found half made");
}
SCENARIO_LAW_NONE(sealed_find)

void scenario_sealed_open_begin(void)
{
    scenario_sealed_begin();
}

void scenario_sealed_open(unsigned thread)
{
    char *middle = large[0].user + large[0].word.size_bytes / 2;
    if (thread == 0) {
        release(0);
    } else {
        sealed_open(middle);
        sealed_is_open(middle);
    }
}
SCENARIO_LAW_NONE(sealed_open)
