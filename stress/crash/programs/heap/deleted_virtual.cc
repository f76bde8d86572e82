/* deleted_virtual.cc: a listener is deleted but stays subscribed. The next event is a virtual call on its block, which
 * holds another owner's text by then. */
// expect: library=both cause=use_after_free grade=found
#include "../program.h"

struct Listener {
    uint64_t heard = 0;
    char rest[48];
    virtual ~Listener() = default;
    virtual void on_event() { heard++; }
};

struct Source {
    Listener *listeners[4] = {};
    PLAINLY void subscribe(size_t place, Listener *listener) { listeners[place] = listener; }
    PLAINLY void event()
    {
        for (Listener *listener : listeners)
            if (listener != nullptr) listener->on_event();
    }
};

PLAINLY static void close_window(Listener *listener)
{
    delete listener; /* guilty */
}

PLAINLY static char *next_owner()
{
    char *text = (char *)need(malloc(sizeof(Listener)));
    memset(text, 't', sizeof(Listener));
    return text;
}

int main()
{
    earlier_owners(sizeof(Listener));
    Source source;
    for (size_t i = 0; i < 3; i++) source.subscribe(i, new Listener);
    source.event();
    close_window(source.listeners[1]);
    char *text = next_owner();
    source.event();
    return text[0] == 't' ? 4 : 5;
}
