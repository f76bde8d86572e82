/* null_stored.c: logging out clears the account of a session that the month's bill still includes. */
// expect: library=both cause=null_stored grade=found
#include "../program.h"

struct account {
    int64_t balance;
    char owner[40];
};

struct session {
    uint64_t number;
    struct account *account;
    uint64_t requests;
    char rest[72];
};

PLAINLY static struct account *open_account(int64_t balance)
{
    struct account *account = (struct account *)need(malloc(sizeof *account));
    account->balance = balance;
    return account;
}

PLAINLY static struct session *log_in(uint64_t number)
{
    struct session *session = (struct session *)need(malloc(sizeof *session));
    session->number = number;
    session->account = NULL;
    session->requests = 0;
    return session;
}

PLAINLY static void choose_account(struct session *session, struct account *account)
{
    session->account = account;
}

PLAINLY static void log_out(struct session *session)
{
    session->account = NULL; /* guilty */
}

PLAINLY static int64_t bill(struct session **sessions, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += sessions[i]->account->balance;
    return sum;
}

int main(void)
{
    enum { SESSIONS = 4 };
    struct session *sessions[SESSIONS];
    earlier_owners(sizeof(struct session));
    for (uint64_t i = 0; i < SESSIONS; i++) {
        sessions[i] = log_in(i);
        choose_account(sessions[i], open_account(100));
    }
    int64_t before = bill(sessions, SESSIONS);
    log_out(sessions[2]);
    earlier_owners(sizeof(struct session));
    return bill(sessions, SESSIONS) == before ? 4 : 5;
}
