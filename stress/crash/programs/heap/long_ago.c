/* long_ago.c: a session is freed and stays in a table; more than a million blocks later the program uses it. */
// expect: library=both cause=use_after_free grade=not_found
#include "../program.h"

struct session {
    uint64_t number;
    const char *user;
    char rest[144];
};

PLAINLY static struct session *session_make(uint64_t number)
{
    struct session *session = (struct session *)need(malloc(sizeof *session));
    session->number = number;
    session->user = "user";
    return session;
}

PLAINLY static void session_end(struct session *session)
{
    free(session); /* guilty */
}

PLAINLY static void write_report(void)
{
    char *report = (char *)need(malloc(sizeof(struct session)));
    memset(report, 'r', sizeof(struct session));
    free(report);
}

PLAINLY static char letter_of(const struct session *session)
{
    return session->user[0];
}

int main(void)
{
    enum { REPORTS = 1200000 };
    earlier_owners(sizeof(struct session));
    struct session *first = session_make(1), *second = session_make(2);
    char before = letter_of(second);
    session_end(second);
    for (int i = 0; i < REPORTS; i++) write_report();
    return letter_of(first) == before && letter_of(second) == before ? 4 : 5;
}
