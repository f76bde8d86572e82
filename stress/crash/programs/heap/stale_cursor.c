/* stale_cursor.c: a parser keeps its cursor into a line that it has freed. The block has had another owner since, who
 * did nothing wrong, and belongs to a rule when the parser writes through the cursor. */
// expect: library=release cause=use_after_free grade=likely
#include "../program.h"

struct rule {
    const char *name;
    uint64_t weight[5];
};

static char *cursor;

PLAINLY static void parse_line(const char *text)
{
    char *line = (char *)need(malloc(sizeof(struct rule)));
    strcpy(line, text);
    cursor = line;
    free(line); /* also guilty */
}

PLAINLY static uint64_t count_words(const char *text)
{
    char *copy = (char *)need(malloc(sizeof(struct rule)));
    strcpy(copy, text);
    uint64_t words = 1;
    for (const char *at = copy; *at != '\0'; at++) words += *at == ' ';
    free(copy);
    return words;
}

PLAINLY static struct rule *rule_make(const char *name)
{
    struct rule *rule = (struct rule *)need(malloc(sizeof *rule));
    memset(rule->weight, 0, sizeof rule->weight);
    rule->name = name;
    return rule;
}

PLAINLY static void mark_end(void)
{
    memcpy(cursor, "\n# end #", 8); /* guilty */
}

PLAINLY static size_t rule_length(const struct rule *rule)
{
    return strlen(rule->name);
}

int main(void)
{
    parse_line("allow all");
    uint64_t words = count_words("deny the rest");
    struct rule *rule = rule_make("allow");
    mark_end();
    return rule_length(rule) == words ? 4 : 5;
}
