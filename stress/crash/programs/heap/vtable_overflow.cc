/* vtable_overflow.cc: a name is copied into a label that is too short for it, and overwrites the next object's pointer
 * to its virtual functions. */
// expect: library=release cause=overflow grade=found
#include "../program.h"

struct Widget {
    virtual ~Widget() = default;
    virtual int draw() { return 1; }
    char label[40];
};

PLAINLY static void set_label(Widget *widget, const char *label)
{
    char *to = widget->label;
    while (*label != 0) *to++ = *label++; /* guilty */
}

PLAINLY static int draw_all(Widget *const *widgets, size_t count)
{
    int drawn = 0;
    for (size_t i = 0; i < count; i++) drawn += widgets[i]->draw();
    return drawn;
}

int main()
{
    enum { WIDGETS = 16 };
    Widget *widgets[WIDGETS];
    earlier_owners(sizeof(Widget));
    for (Widget *&widget : widgets) {
        widget = new Widget;
        set_label(widget, "short");
    }
    int before = draw_all(widgets, WIDGETS);
    for (Widget *widget : widgets) set_label(widget, "a label that is longer than anybody has thought");
    for (Widget *widget : widgets) set_label(widget, "short again");
    return draw_all(widgets, WIDGETS) == before ? 4 : 5;
}
