/* stack_escape.c: a request keeps the address of a header on a stack frame that is gone. Another function's locals are
 * there now, and that function does nothing wrong. */
// expect: library=both cause=uninitialised,wild_read,wild_write,use_after_free,use_after_return grade=not_found
#include "../program.h"

struct header {
    const char *name;
    char rest[248];
};

struct request {
    const struct header *header;
    char rest[24];
};

PLAINLY static void set_header(struct request *request, const struct header *header)
{
    request->header = header; /* also guilty */
}

PLAINLY static char first_letter(const struct request *request)
{
    return request->header->name[0];
}

PLAINLY static char parse(struct request *request, const char *text)
{
    struct header header;
    memset(&header, 0, sizeof header);
    header.name = text;
    set_header(request, &header); /* guilty */
    return first_letter(request);
}

PLAINLY static size_t print_line(char with)
{
    char line[512];
    memset(line, with, sizeof line - 1);
    line[sizeof line - 1] = 0;
    return strlen(line);
}

int main(void)
{
    earlier_owners(sizeof(struct request));
    struct request *request = (struct request *)need(calloc(1, sizeof *request));
    char before = parse(request, "name: value");
    size_t length = print_line('-');
    return first_letter(request) == before && length > 0 ? 4 : 5;
}
