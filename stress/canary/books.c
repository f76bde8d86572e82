/* For a canary that counts what it loses: shows that count through the functions by which libhakmem.so shows its
 * statistics. */
#include <hakmem/hakmem.h>

#include "canary/books.h"

size_t hak_purge(void)
{
    return 0;
}

void hak_stats_get(struct hak_stats *out)
{
    *out = (struct hak_stats){.small_bytes = canary_lost_bytes};
}
