/* name_too_long.c: stations of a line are in a list, newest first; a name that is too long runs into the link of its
 * own station. The loop that then walks the list loads each link over the pointer to it. */
// expect: library=both cause=bad_value_stored,overflow grade=likely
#include "../program.h"

struct station {
    char name[24];
    struct station *before;
    uint64_t seconds;
};

PLAINLY static struct station *station_add(struct station *before, uint64_t seconds)
{
    struct station *station = (struct station *)need(malloc(sizeof *station));
    station->name[0] = '\0';
    station->before = before;
    station->seconds = seconds;
    return station;
}

PLAINLY static void station_name(struct station *station, const char *name)
{
    char *to = station->name;
    do {
        *to++ = *name; /* guilty */
    } while (*name++ != '\0');
}

PLAINLY static uint64_t seconds_of_line(const struct station *station)
{
    uint64_t seconds = 0;
    for (; station != NULL; station = station->before) seconds += station->seconds;
    return seconds;
}

int main(void)
{
    struct station *last = NULL;
    earlier_owners(sizeof(struct station));
    for (uint64_t i = 0; i < 9; i++) last = station_add(last, i);
    uint64_t before = seconds_of_line(last);
    station_name(last->before, "short");
    station_name(last->before->before, "the station beside the harbour, northern entrance");
    return seconds_of_line(last) == before ? 4 : 5;
}
