/* pure_virtual.cc: a base's constructor indirectly calls a function that only the derived class defines. */
// expect: library=both cause=abort,uncaught_exception grade=found
#include "../program.h"

struct Part {
    PLAINLY Part();
    virtual ~Part() = default;
    virtual int size() const = 0;
};

PLAINLY static int size_of(const Part *part)
{
    return part->size(); /* guilty */
}

Part::Part()
{
    if (size_of(this) == 0) _exit(3); /* also guilty */
}

struct Wheel : Part {
    int size() const override { return 1; }
};

int main()
{
    earlier_owners(sizeof(Wheel));
    Part *part = new Wheel;
    return size_of(part) == 1 ? 4 : 5;
}
