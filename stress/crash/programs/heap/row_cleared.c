/* row_cleared.c: one row of a table is cleared with the size of another kind of row, into the label of the next one.
 * Many blocks come and go before the labels are read. */
// expect: library=release cause=overflow,bad_value_stored grade=found
#include "../program.h"

enum { ROWS = 12, CELLS = 32, WIDE_CELLS = 48 };

struct row {
    const char *label;
    unsigned char cells[CELLS + 8];
};

static struct row *rows[ROWS];

PLAINLY static void rows_make(const char *label)
{
    for (int i = 0; i < ROWS; i++) {
        rows[i] = (struct row *)need(malloc(sizeof **rows));
        rows[i]->label = label;
    }
}

PLAINLY static void row_clear(struct row *row, size_t cells)
{
    memset(row->cells, 0x77, cells); /* guilty */
}

PLAINLY static char row_initial(int number)
{
    const char *label = rows[number]->label;
    char initial = *label;
    return initial;
}

int main(void)
{
    int letters = 0;
    rows_make("label");
    row_clear(rows[2], CELLS);
    row_clear(rows[6], WIDE_CELLS);
    for (size_t i = 1; i < 200; i++) earlier_owners(i);
    for (int i = 0; i < ROWS; i++) letters += row_initial(i);
    return letters > 0 ? 4 : 5;
}
