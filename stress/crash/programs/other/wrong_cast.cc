/* wrong_cast.cc: a circle is cast to a picture; the picture's pixel pointer overlaps the circle's radius. */
// expect: library=both cause=wild_read,wild_write,bad_value_stored grade=not_found
#include "../program.h"

struct Shape {
    virtual ~Shape() = default;
    uint64_t number = 0;
};

struct Circle : Shape {
    double radius = 0;
    PLAINLY void set_radius(double to) { radius = to; /* also guilty */ }
};

struct Picture : Shape {
    uint64_t *pixels = new uint64_t[4]();
};

PLAINLY static Picture *picture_of(Shape *shape)
{
    return static_cast<Picture *>(shape); /* guilty */
}

PLAINLY static uint64_t first_pixel(const Picture *picture)
{
    return picture->pixels[0]; /* also guilty */
}

int main()
{
    earlier_owners(sizeof(Circle));
    Circle *circle = new Circle; /* also guilty */
    Shape *shapes[2] = {new Picture, circle};
    circle->set_radius(2.5);
    uint64_t sum = 1;
    for (Shape *shape : shapes) sum += first_pixel(picture_of(shape));
    return sum == 0 ? 3 : 4;
}
