/* hakmem-bench-tiny: a program that mallocs 100 bytes and prints the memory that is its own in KiB, as JSON. It is
 * written in C without stdio, so that only libc, the malloc under it and a page or two of its own are measured.
 *
 * Its own are the pages that it wrote (Anonymous). Resident memory also counts the unwritten pages of libraries, which
 * all processes share. The kernel maps up to 16 of them around each fault, so their number changes from run to run with
 * the addresses of the libraries, by more than a malloc adds. Private_Dirty counts those of a library that was built a
 * moment ago, which are not on disk yet. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The only fault that a malloc can cause here is to return NULL. Exit status 1, as for all faults. */
int main(void)
{
    char text[8192];
    char *block = malloc(100);
    if (block == NULL) return 1;
    memset(block, 1, 100);

    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (length <= 0) return 1;
    text[length] = '\0';
    const char *figure = strstr(text, "Anonymous:");
    if (figure == NULL) return 1;
    figure += strcspn(figure, "0123456789");

    static const char head[] = "{\"row\": \"tiny\", \"kib\": {\"end\": ";
    static const char tail[] = "}}\n";
    struct {
        const char *text;
        size_t length;
    } parts[] = {{head, sizeof(head) - 1}, {figure, strspn(figure, "0123456789")}, {tail, sizeof(tail) - 1}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i)
        if (write(STDOUT_FILENO, parts[i].text, parts[i].length) != (ssize_t)parts[i].length) return 1;
    free(block);
    return 0;
}
