/* read_only_page.c: writes to a page that was mapped read-only. Another mapping was at that place before, and was
 * rightly unmapped. */
// expect: library=both cause=read_only,wild_write,bad_value_stored grade=likely
#include <sys/mman.h>

#include "../program.h"

enum { PAGE_BYTES = 4096 };

struct view {
    char *bytes;
    char rest[56];
};

PLAINLY static void view_open(struct view *view, int protection)
{
    view->bytes = (char *)mmap(NULL, PAGE_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* also guilty */
    if (view->bytes == MAP_FAILED) _exit(3);
}

PLAINLY static void view_close(struct view *view)
{
    munmap(view->bytes, PAGE_BYTES);
    view->bytes = NULL;
}

PLAINLY static void view_write(const struct view *view, char letter)
{
    view->bytes[0] = letter; /* guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct view));
    struct view *view = (struct view *)need(calloc(1, sizeof *view));
    view_open(view, PROT_READ | PROT_WRITE);
    view_write(view, 'a');
    view_close(view);
    view_open(view, PROT_READ);
    view_write(view, 'b');
    return 4;
}
