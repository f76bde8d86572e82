/* uninitialised_field.c: a request's link is set only if another request follows; the last one's link holds what the
 * block's previous owner left there. */
// expect: library=both cause=uninitialised grade=found
#include "../program.h"

struct request {
    char *path;
    uint64_t number;
    struct request *then;
    char rest[72];
};

PLAINLY static struct request *make_request(const char *path, uint64_t number)
{
    struct request *request = (struct request *)need(malloc(sizeof *request)); /* guilty */
    request->path = copy_text(path);
    request->number = number;
    return request;
}

PLAINLY static void put_behind(struct request *request, struct request *then)
{
    request->then = then;
}

PLAINLY static uint64_t serve_all(const struct request *first)
{
    uint64_t sum = 0;
    for (const struct request *request = first; request != NULL; request = request->then) sum += request->number;
    return sum;
}

int main(void)
{
    /* Repeated until blocks leave the quarantine. */
    for (int i = 0; i < 200; i++) earlier_owners(sizeof(struct request));
    struct request *first = make_request("/", 1);
    put_behind(first, make_request("/index", 2));
    return serve_all(first) == 3 ? 4 : 5;
}
