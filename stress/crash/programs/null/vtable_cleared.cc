/* vtable_cleared.cc: an object is cleared with memset, as was right before it had virtual functions. */
// expect: library=both cause=null_stored,wild_write,overflow grade=found
#include "../program.h"

struct Shape {
    virtual ~Shape() = default;
    virtual int area() const = 0;
};

struct Box : Shape {
    int width, height;
    Box(int w, int h) : width(w), height(h) {}
    PLAINLY int area() const override { return width * height; }
    PLAINLY void stretch(int by) { width *= by; }
    PLAINLY void make_empty() { memset(static_cast<void *>(this), 0, sizeof *this); /* guilty */ }
};

PLAINLY static int area_of_all(Shape *const *shapes, size_t count)
{
    int sum = 0;
    for (size_t i = 0; i < count; i++) sum += shapes[i]->area();
    return sum;
}

int main()
{
    earlier_owners(sizeof(Box));
    Box *second = new Box(3, 4);
    Shape *shapes[3] = {new Box(1, 2), second, new Box(5, 6)};
    int before = area_of_all(shapes, 3);
    second->stretch(2);
    second->make_empty();
    earlier_owners(sizeof(Box));
    return area_of_all(shapes, 3) == before ? 4 : 5;
}
