#include "engine/base/spawn_for_test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "engine/base/build.h"

namespace stress {
namespace {

std::string program()
{
    const char *path = getenv("HAKMEM_STRESS_PROGRAM");
    return path != nullptr ? path : "";
}

std::string read_and_remove(const std::string &path)
{
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    unlink(path.c_str());
    return text.str();
}

std::string temporary_file()
{
    char path[] = "/tmp/hakmem-stress-test-XXXXXX";
    const int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    return path;
}

}  // namespace

SpawnResult spawn_stress(const std::vector<std::string> &arguments, const std::string &first)
{
    std::string command = first + "'" + program() + "'";
    for (const std::string &argument : arguments) command += " '" + argument + "'";
    const std::string out = temporary_file(), err = temporary_file();
    command += " >" + out + " 2>" + err;
    const int status = system(command.c_str());
    SpawnResult result;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.out = read_and_remove(out);
    result.err = read_and_remove(err);
    return result;
}

std::string a_subject()
{
    return kDirect ? "hakmem" : "system";
}

std::string canary_directory()
{
    return program().substr(0, program().rfind('/')) + "/canary";
}

}  // namespace stress
