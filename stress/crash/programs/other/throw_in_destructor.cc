/* throw_in_destructor.cc: a file's destructor throws because it could not write, while another exception is being
 * handled.
 */
// expect: library=both cause=uncaught_exception grade=found
#include <stdexcept>

#include "../program.h"

struct File {
    char *room = copy_text("some text to be saved");
    PLAINLY ~File() noexcept(false)
    {
        free(room);
        throw std::runtime_error("the disk is full"); /* guilty */
    }
};

PLAINLY static void convert(int number)
{
    File file;
    if (number > 2) throw std::invalid_argument("too large"); /* also guilty function */
}

PLAINLY static int convert_all()
{
    int failed = 0;
    for (int i = 1; i < 4; i++) {
        try {
            convert(i);
        } catch (const std::exception &) {
            failed++;
        }
    }
    return failed;
}

int main()
{
    earlier_owners(64);
    return convert_all() == 0 ? 4 : 5;
}
