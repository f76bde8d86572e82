/* not_joined.cc: after a caught exception, a thread object ends that was neither joined nor detached. */
// expect: library=both cause=uncaught_exception grade=likely
#include "../program.h"

#include <stdexcept>
#include <thread>

static volatile int failures;

PLAINLY static int parse(const char *text)
{
    if (text[0] == '-') throw std::runtime_error("a number is not negative");
    return text[0] - '0';
}

PLAINLY static int parse_or_zero(const char *text)
{
    try {
        return parse(text);
    } catch (const std::exception &) {
        failures = failures + 1;
        return 0;
    }
}

PLAINLY static void start_background()
{
    std::thread background([] { sleep(1000); }); /* guilty function */
    failures = failures + 1;
}

int main()
{
    if (parse_or_zero("-1") != 0) return 3;
    start_background();
    return 4;
}
