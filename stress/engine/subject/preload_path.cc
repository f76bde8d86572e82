#include "engine/subject/preload_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace stress {
namespace {

constexpr const char *kSeparators = ": ";

// FNV-1a: libraries of one name in different folders have different links.
std::uint64_t hash(const std::string &text)
{
    std::uint64_t sum = 0xcbf29ce484222325;
    for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return sum;
}

// Others can write in /tmp: a folder that is not ours alone could lead to another library.
bool is_ours(const std::string &folder)
{
    struct stat status{};
    if (lstat(folder.c_str(), &status) != 0) return false;
    if (S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077) == 0) return true;
    errno = EPERM;
    return false;
}

bool leads_to(const std::string &link, const std::string &path)
{
    std::string target(path.size() + 1, '\0');
    const ssize_t length = readlink(link.c_str(), target.data(), target.size());
    return length >= 0 && target.substr(0, static_cast<std::size_t>(length)) == path;
}

}  // namespace

std::string preload_path(const std::string &path)
{
    if (path.find_first_of(kSeparators) == std::string::npos) return path;
    const char *runtime = std::getenv("XDG_RUNTIME_DIR");
    const bool usable = runtime != nullptr && *runtime == '/' && access(runtime, W_OK) == 0 &&
                        std::string(runtime).find_first_of(kSeparators) == std::string::npos;
    const std::string folder = std::string(usable ? runtime : "/tmp") + "/hakmem-preload-" + std::to_string(geteuid());
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return "";
    if (!is_ours(folder)) return "";
    char name[32];
    std::snprintf(name, sizeof name, "/%016llx-", static_cast<unsigned long long>(hash(path)));
    std::string base = path.substr(path.rfind('/') + 1);
    std::replace_if(base.begin(), base.end(), [](char c) { return c == ' ' || c == ':'; }, '_');
    const std::string link = folder + name + base;
    if (leads_to(link, path)) return link;
    const std::string fresh = link + "." + std::to_string(getpid());
    if (symlink(path.c_str(), fresh.c_str()) != 0) return "";
    if (rename(fresh.c_str(), link.c_str()) == 0) return link;
    const int error = errno;
    unlink(fresh.c_str());
    errno = error;
    return "";
}

}  // namespace stress
