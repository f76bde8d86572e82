/* interior_free.c: a reader moves a message's pointer past the header, and later frees that pointer. */
// expect: library=validate cause=bad_free grade=found seconds=10
#include "../program.h"

struct message {
    char *text;
    size_t length;
};

PLAINLY static void message_read(struct message *message)
{
    message->text = copy_text("0016sixteen letters, and some");
    message->length = strlen(message->text);
}

PLAINLY static void message_skip(struct message *message, size_t by)
{
    message->text += by; /* also guilty */
    message->length -= by;
}

PLAINLY static void message_end(struct message *message)
{
    free(message->text); /* guilty */
    message->text = NULL;
}

int main(void)
{
    earlier_owners(32);
    struct message message;
    message_read(&message);
    message_end(&message);
    message_read(&message);
    message_skip(&message, 16);
    message_end(&message);
    return 4;
}
