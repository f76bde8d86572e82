/* closed_file.c: writes a line to a closed file. The C library has freed the FILE's block, which already has another
 * owner. */
// expect: library=release cause=use_after_free,abort,wild_write grade=likely
#include "../program.h"

struct log {
    FILE *file;
    uint64_t lines;
};

PLAINLY static void log_open(struct log *log)
{
    log->file = fopen("/dev/null", "w");
    if (log->file == NULL) _exit(3);
}

PLAINLY static void log_write(struct log *log, const char *line)
{
    fputs(line, log->file); /* also guilty */
    log->lines++;
}

PLAINLY static void log_close(const struct log *log)
{
    fclose(log->file); /* guilty */
}

PLAINLY static char *next_owner(size_t size_bytes)
{
    char *text = (char *)need(malloc(size_bytes));
    memset(text, 'q', size_bytes);
    return text;
}

int main(void)
{
    static struct log log;
    log_open(&log);
    log_write(&log, "a line\n");
    log_close(&log);
    unsigned sum = 0;
    for (size_t size = 400; size < 700; size += 16) sum += (unsigned char)next_owner(size)[0];
    log_write(&log, "another line\n");
    return sum == 0 ? 3 : 4;
}
