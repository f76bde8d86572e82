/* mismatched_delete.cc: an array is deleted without brackets. */
// expect: library=validate cause=bad_free grade=found seconds=10
#include "../program.h"

struct Row {
    char *cells = nullptr;
    PLAINLY void make() { cells = new char[40]; /* also guilty */ }
    PLAINLY void fill() { memset(cells, 'c', 40); }
    PLAINLY void clear() { delete cells; /* guilty */ }
};

int main()
{
    earlier_owners(40);
    Row rows[3];
    for (Row &row : rows) row.make();
    for (Row &row : rows) row.fill();
    for (Row &row : rows) row.clear();
    return 4;
}
