/* Whose malloc is it? Prints "ours" or "libc", and the library's version. */
#include <hakmem/hakmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    struct hak_stats before, after;
    hak_stats_get(&before);
    char *volatile block = malloc(5 << 20); /* huge: counted one by one */
    hak_stats_get(&after);
    memset(block, 1, 5 << 20);
    free(block);
    free(NULL);
    hak_free(hak_malloc(100));
    printf("%s %s\n", after.huge_count > before.huge_count ? "ours" : "libc", hak_version());
    return strcmp(hak_version(), HAKMEM_VERSION) != 0;
}
