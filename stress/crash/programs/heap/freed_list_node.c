/* freed_list_node.c: a cache frees an entry that its bucket still points to. The block's next owner rightly writes its
 * own text there. */
// expect: library=both cause=use_after_free grade=found
// build: stripped
#include "../program.h"

struct entry {
    char *key;
    struct entry *next;
    uint64_t uses;
    char rest[104];
};

static struct entry *bucket;

PLAINLY static void put(const char *key)
{
    struct entry *entry = (struct entry *)need(malloc(sizeof *entry));
    entry->key = copy_text(key);
    entry->next = bucket;
    entry->uses = 0;
    bucket = entry;
}

PLAINLY static struct entry *get(const char *key)
{
    struct entry *entry = bucket;
    while (entry != NULL && strcmp(entry->key, key) != 0) entry = entry->next;
    return entry;
}

PLAINLY static void evict(const char *key)
{
    struct entry *entry = get(key);
    free(entry->key);
    free(entry); /* guilty */
}

PLAINLY static char *write_note(void)
{
    char *note = (char *)need(malloc(sizeof(struct entry)));
    memset(note, 'n', sizeof(struct entry));
    return note;
}

int main(void)
{
    earlier_owners(sizeof(struct entry));
    put("one");
    put("two");
    put("three");
    if (get("one") == NULL) return 3;
    evict("two");
    char *note = write_note();
    return get("one") != NULL && note[0] == 'n' ? 4 : 5;
}
