/* modules_program.c: usage: modules-program HOW END PLUGIN OTHER
 *
 * Keeps blocks that its own code allocates, and a plugin's; then does with the plugin what HOW says:
 *
 *   open       nothing
 *   unload     unloads it
 *   reuse      unloads it, and loads OTHER, which lies at its place then
 *   again      unloads it, and loads it again at another place
 *   delete     deletes its file
 *   replace    replaces its file by OTHER's
 *   reload     unloads it, replaces its file by OTHER's, and loads that, at the same place
 *
 * After reuse, again and reload it keeps blocks of what it has loaded, too. END is
 *
 *   exit       the end
 *   overrun    writes past the end of the plugin's block, and frees it
 *   freed      reads the plugin's block after it has freed it
 *
 * Exit status 3: OTHER does not lie where it should. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK_BYTES = 50000, SMALL_BYTES = 200, OWN = 200, PLUGINS = 400, OTHERS = 100 };

static void *kept[OWN + PLUGINS + OTHERS];
static size_t kept_count;
static char *volatile last; /* a small block of the plugin's */

__attribute__((noinline)) static void *program_allocates(size_t size_bytes)
{
    char *block = malloc(size_bytes);
    if (block != NULL) memset(block, 1, size_bytes);
    return block;
}

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library != NULL) return library;
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
}

typedef void *allocate_fn(size_t size_bytes);

static allocate_fn *function_of(void *library)
{
    void *found = dlsym(library, "plugin_keeps");
    allocate_fn *function;
    memcpy(&function, &found, sizeof function);
    return function;
}

static void keep(allocate_fn *allocate, int count)
{
    for (int i = 0; i < count; i++) kept[kept_count++] = allocate(BLOCK_BYTES);
}

static void rename_over(const char *from, const char *to)
{
    if (rename(from, to) == 0) return;
    perror(to);
    exit(2);
}

/* The page that it begins with stays mapped for something else. */
static void block_place(void *library)
{
    struct link_map *map;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) exit(2);
    void *start = (void *)map->l_addr;
    dlclose(library);
    if (mmap(start, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != start) exit(3);
}

static void do_with_plugin(const char *how, const char *plugin, const char *other, void *library)
{
    allocate_fn *before = function_of(library), *after = before;
    if (strcmp(how, "unload") == 0 || strcmp(how, "reuse") == 0) dlclose(library);
    if (strcmp(how, "reuse") == 0) after = function_of(load(other));
    if (strcmp(how, "again") == 0) {
        block_place(library);
        after = function_of(load(plugin));
        if (after == before) exit(3);
        keep(after, OTHERS);
    }
    if (strcmp(how, "delete") == 0) remove(plugin);
    if (strcmp(how, "replace") == 0) rename_over(other, plugin);
    if (strcmp(how, "reload") == 0) {
        dlclose(library);
        rename_over(other, plugin);
        after = function_of(load(plugin));
    }
    if (strcmp(how, "reuse") != 0 && strcmp(how, "reload") != 0) return;
    if (after != before) exit(3);
    keep(after, OTHERS);
    kept[0] = after(SMALL_BYTES); /* what level 3 knows of it must not change what it knows of the plugin's */
}

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    const char *end = argv[2];
    keep(program_allocates, OWN);
    void *library = load(argv[3]);
    keep(function_of(library), PLUGINS);
    last = function_of(library)(SMALL_BYTES);
    if (strcmp(end, "freed") == 0) free(last);
    do_with_plugin(argv[1], argv[3], argv[4], library);
    if (strcmp(end, "overrun") == 0) {
        last[SMALL_BYTES] = 5;
        free(last);
    }
    if (strcmp(end, "freed") == 0) return last[0];
    return 0;
}
