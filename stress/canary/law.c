/* Beside a sound malloc, books whose laws hold at the first two rests and are broken ever after: the suite must
 * look at them, and go on looking. */
#include <hakmem/validate.h>
#include <stddef.h>

bool hak_inspect(struct hak_inspect_report *report)
{
    static int looks;
    *report = (struct hak_inspect_report){.broken_law = NULL};
    if (++looks > 2) report->broken_law = "law 9: the canary sings";
    return report->broken_law == NULL;
}
