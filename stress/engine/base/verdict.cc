#include "engine/base/verdict.h"

#include <unistd.h>

#include <cstring>

#include "engine/base/progress.h"

namespace stress {
namespace {

const char *verdict_known = nullptr;
bool lost = false;

} // namespace

void verdict_reached(const char *verdict)
{
    verdict_known = verdict;
}

void result_lost(const std::string &why)
{
    lost = true;
    std::string line = "hakmem-stress: " + why;
    for (char &c : line)
        if (c == '\n') c = ' ';
    write_text(STDERR_FILENO, line + "\n");
}

int verdict_status(int status)
{
    if (const int error = stdout_error(); error != 0)
        result_lost(std::string("cannot write to standard output: ") + std::strerror(error) +
                    (verdict_known == nullptr ? "" : std::string("; verdict ") + verdict_known));
    if (!lost || status == kExitBadInput) return status;
    return verdict_known == nullptr ? kExitBadInput : kExitLost;
}

} // namespace stress
