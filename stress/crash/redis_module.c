/* redis_module.c: a module for redis-server with two planted bugs; apps_test runs it. The module API is a table of
 * functions that are looked up by name. The few that are needed are declared here, since no package has the header.
 *
 *   HAKMEM.LINK      writes 8 bytes past the end of a block, over the first word of its neighbour, which is free: that
 *                    word is a link of malloc's, and a later malloc follows it
 *   HAKMEM.GUARDED   writes behind the end of a sampled block (HAKMEM_GUARD_SAMPLE)
 *
 * First prints the block that it will hit on standard error, as a line "block ADDRESS BYTES". */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    API_VERSION = 1,
    LINK_BYTES = 96,
    LINK_BLOCKS = 512, /* some of them have a neighbour among them */
    BAD_LINK = 0x123450,
    GUARDED_BYTES = 1100, /* 1104 bytes are usable if sampled, otherwise 1152 */
    GUARDED_USABLE_BYTES = 1104,
    TRIES = 1000000,
};

#define EXPORTED __attribute__((visibility("default")))
#define PLAINLY __attribute__((noinline))

typedef int command_fn(void *context, void **arguments, int count);
typedef int get_api_fn(const char *name, void *function);

static int (*create_command)(void *context, const char *name, command_fn *command, const char *flags, int first_key,
                             int last_key, int key_step);
static int (*reply)(void *context, const char *text);

static void tell(const void *block, size_t size_bytes)
{
    dprintf(STDERR_FILENO, "block %p %zu\n", block, size_bytes);
}

PLAINLY static void hakmem_write_past(char *block, size_t offset, uint64_t value)
{
    *(volatile uint64_t *)(void *)(block + offset) = value; /* guilty */
}

static int hakmem_link_command(void *context, void **arguments, int count)
{
    (void)arguments;
    (void)count;
    char *blocks[LINK_BLOCKS];
    for (int i = 0; i < LINK_BLOCKS; i++) blocks[i] = malloc(LINK_BYTES);
    for (int i = 0; i < LINK_BLOCKS; i++)
        for (int k = 0; k < LINK_BLOCKS; k++) {
            if (blocks[k] != blocks[i] + LINK_BYTES) continue;
            tell(blocks[k], LINK_BYTES);
            free(blocks[k]);
            hakmem_write_past(blocks[i], LINK_BYTES, BAD_LINK);
            for (int next = 0; next < 3; next++) {
                char *volatile block = malloc(LINK_BYTES);
                if (block == NULL) break;
            }
            return reply(context, "no crash");
        }
    return reply(context, "no neighbours");
}

static int hakmem_guarded_command(void *context, void **arguments, int count)
{
    (void)arguments;
    (void)count;
    for (int i = 0; i < TRIES; i++) {
        char *block = malloc(GUARDED_BYTES);
        if (block == NULL) break;
        if (malloc_usable_size(block) == GUARDED_USABLE_BYTES) {
            tell(block, GUARDED_BYTES);
            hakmem_write_past(block, GUARDED_USABLE_BYTES, 0);
            return reply(context, "no crash");
        }
        if (i % 2 == 0) free(block); /* malloc and free, so that the bin is used and empties */
    }
    return reply(context, "no block was sampled");
}

EXPORTED int RedisModule_OnLoad(void *context, void **arguments, int count);

int RedisModule_OnLoad(void *context, void **arguments, int count)
{
    (void)arguments;
    (void)count;
    /* The context begins with the function that finds the others. */
    get_api_fn *get_api = *(get_api_fn **)context;
    void (*set_attributes)(void *context, const char *name, int version, int api_version);
    if (get_api("RedisModule_SetModuleAttribs", (void *)&set_attributes) != 0 ||
        get_api("RedisModule_CreateCommand", (void *)&create_command) != 0 ||
        get_api("RedisModule_ReplyWithSimpleString", (void *)&reply) != 0)
        return 1;
    set_attributes(context, "hakmem", 1, API_VERSION);
    if (create_command(context, "hakmem.link", hakmem_link_command, "", 0, 0, 0) != 0) return 1;
    return create_command(context, "hakmem.guarded", hakmem_guarded_command, "", 0, 0, 0);
}
