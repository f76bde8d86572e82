#include "conform/files.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "conform/child.h"
#include "engine/subject/preload_path.h"

namespace stress::conform {

std::string file_path(const char *name)
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    const std::string program(path, length > 0 ? static_cast<std::size_t>(length) : 0);
    return program.substr(0, program.rfind('/') + 1) + "conform/" + name;
}

std::string files_missing()
{
    for (const char *name : {"conform-fresh", "conform-secure", "libconform-tls.so", "libconform-static_tls.so",
                             "libconform-constructor.so", "libconform-reenter.so", "libconform-begin_once.so",
                             "libconform-late.so", "libconform-keys.so", "libconform-own_new.so"})
        if (const std::string path = file_path(name); access(path.c_str(), R_OK) != 0) return path;
    return "";
}

void preload_after(const char *name)
{
    const char *before = std::getenv("LD_PRELOAD");
    static char preload[9000];
    std::snprintf(preload, sizeof preload, "%s%s%s", before != nullptr ? before : "",
                  before != nullptr && *before != '\0' ? ":" : "", preload_path(file_path(name)).c_str());
    setenv("LD_PRELOAD", preload, 1);
}

void become_fresh_program(const char *mode, const Subject &subject)
{
    const std::string path = file_path("conform-fresh");
    execl(path.c_str(), path.c_str(), mode, subject.library, static_cast<char *>(nullptr));
}

Verdict in_fresh_program(const char *mode, const Subject &subject)
{
    child_becomes_program();
    become_fresh_program(mode, subject);
    return fail("cannot start conform-fresh");
}

}  // namespace stress::conform
