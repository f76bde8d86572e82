/* own_trap.c: a switch over kinds has a trap for kinds that should not exist; one does. */
// expect: library=both cause=illegal_instruction,abort,assertion,trap grade=found
#include "../program.h"

struct token {
    int kind;
    char text[44];
};

PLAINLY static void token_read(struct token *token, int kind)
{
    token->kind = kind;
}

PLAINLY static int priority_of(const struct token *token)
{
    switch (token->kind) {
    case '+': return 1;
    case '*': return 2;
    default: __builtin_trap(); /* guilty */
    }
}

int main(void)
{
    earlier_owners(sizeof(struct token));
    struct token *token = (struct token *)need(calloc(1, sizeof *token));
    token_read(token, '+');
    int before = priority_of(token);
    token_read(token, '-');
    return priority_of(token) == before ? 4 : 5;
}
