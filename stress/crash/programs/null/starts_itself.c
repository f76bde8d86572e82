/* starts_itself.c: a program starts itself again with execve, with another argument and another environment; the second
 * run crashes. */
// expect: library=both cause=null_stored grade=found
// set: PROGRAM_FIRST=yes
#include "../program.h"

struct page {
    char *text;
    char rest[56];
};

PLAINLY static void page_set(struct page *page, const char *text)
{
    page->text = copy_text(text);
}

PLAINLY static void page_clear(struct page *page)
{
    page->text = NULL; /* guilty */
}

PLAINLY static char page_letter(const struct page *page)
{
    return page->text[0];
}

static char self[] = "/proc/self/exe", title[] = "the second one", word[] = "--second";

int main(int count, char **words)
{
    if (count == 1) {
        char *arguments[] = {title, word, NULL};
        unsetenv("PROGRAM_FIRST");
        setenv("PROGRAM_SECOND", "a b=c", 1);
        execv(self, arguments);
        return 3;
    }
    const char *second = getenv("PROGRAM_SECOND");
    if (strcmp(words[1], word) != 0 || second == NULL || getenv("PROGRAM_FIRST") != NULL) return 3;
    earlier_owners(sizeof(struct page));
    struct page *page = (struct page *)need(calloc(1, sizeof *page));
    page_set(page, second);
    char before = page_letter(page);
    page_clear(page);
    return page_letter(page) == before ? 4 : 5;
}
