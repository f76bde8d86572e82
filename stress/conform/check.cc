#include "conform/check.h"

#include <cstdarg>
#include <cstdio>

namespace stress::conform {
namespace {

Verdict say(Status status, const char *format, va_list arguments)
{
    Verdict verdict;
    verdict.status = status;
    std::vsnprintf(verdict.detail, sizeof verdict.detail, format, arguments);
    return verdict;
}

}  // namespace

Verdict pass()
{
    return {};
}

Verdict fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const Verdict verdict = say(Status::Fail, format, arguments);
    va_end(arguments);
    return verdict;
}

Verdict skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const Verdict verdict = say(Status::Skip, format, arguments);
    va_end(arguments);
    return verdict;
}

Verdict not_provided(const char *entry)
{
    return skip("the library does not provide %s", entry);
}

std::vector<const Check *> all_checks()
{
    std::vector<const Check *> all;
    for (const auto &table :
         {api_checks(), aligned_checks(), sized_checks(), operator_checks(), zero_checks(), thread_checks(),
          fork_checks(), loading_checks(), os_checks(), memory_checks(), growth_checks(), lost_checks(), meet_checks(),
          step_checks(), number_checks(), signal_checks(), secure_checks()})
        for (const Check &check : table) all.push_back(&check);
    return all;
}

}  // namespace stress::conform
