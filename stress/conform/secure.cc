// Programs with privileges of their own: the caller of a setuid program chooses its environment.
#include <unistd.h>

#include <cstdlib>

#include "conform/check.h"
#include "conform/child.h"
#include "conform/files.h"

namespace stress::conform {
namespace {

// Variables that make mallocs print statistics. Each malloc reads only its own.
Verdict secure_environment(const Subject &s)
{
    if (s.is_libc) return skip("libc cannot be loaded by dlopen");
    constexpr const char *kPrinting[][2] = {
        {"HAKMEM_STATS", "1"},        {"HAKMEM_PURGE_DELAY_MS", "bad"}, {"MALLOC_CONF", "stats_print:true"},
        {"MIMALLOC_SHOW_STATS", "1"}, {"MIMALLOC_VERBOSE", "1"},        {"MALLOCSTATS", "2"},
        {"TBB_VERSION", "1"},         {"CONFORM_CANARY_STATS", "1"}};
    for (const auto &[name, value] : kPrinting) setenv(name, value, 1);
    unsetenv("LD_PRELOAD");  // under AT_SECURE the loader does not preload it; the program loads the library itself
    const std::string secure = file_path("conform-secure"), fresh = file_path("conform-fresh");
    child_becomes_program();
    execl(secure.c_str(), secure.c_str(), fresh.c_str(), "secure-environment", s.library, static_cast<char *>(nullptr));
    return fail("cannot start conform-secure");
}

constexpr Check kSecureChecks[] = {
    {"secure-environment",
     "a program with privileges of its own (AT_SECURE) does not obey options of the environment",
     "quality: secure_getenv(3) is there so that a program with AT_SECURE does not obey its environment",
     "CVE-2023-4911, an early libhakmem",
     {27},
     secure_environment},
};

}  // namespace

std::span<const Check> secure_checks()
{
    return kSecureChecks;
}

}  // namespace stress::conform
