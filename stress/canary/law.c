/* Gives a sound malloc books whose laws hold at the first two checks and are broken from then on. So the suite must
 * check the laws, and must not stop checking. */
#include <hakmem/validate.h>
#include <stddef.h>

bool hak_inspect(struct hak_inspect_report *report)
{
    static int looks;
    *report = (struct hak_inspect_report){.broken_law = NULL};
    if (++looks > 2) report->broken_law = "law 9: the canary sings";
    return report->broken_law == NULL;
}
