/* noexcept_throw.cc: a function declared noexcept calls one that throws. */
// expect: library=both cause=uncaught_exception grade=found
#include <stdexcept>
#include <string>

#include "../program.h"

struct Guard {
    std::string name;
    PLAINLY ~Guard() { name.clear(); }
};

PLAINLY static void send_all(const std::string &text)
{
    if (text.size() > 10) throw std::runtime_error("the line is closed"); /* guilty */
}

PLAINLY static void flush(const std::string &text) noexcept
{
    Guard guard{"a name that is too long to be kept inside of the string"};
    send_all(text); /* also guilty function */
}

int main()
{
    earlier_owners(64);
    flush("short");
    try {
        send_all("this one is caught, for the caller expects it");
    } catch (const std::runtime_error &) {}
    flush("a text that is longer than what fits");
    return 4;
}
