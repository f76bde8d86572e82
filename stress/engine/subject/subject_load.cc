#include "engine/subject/subject_load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/base/build.h"
#include "engine/subject/preload_path.h"
#include "engine/subject/subject_probe.h"

namespace stress {
namespace {

SubjectOutcome refuse(const std::string &error)
{
    SubjectOutcome outcome;
    outcome.error = "hakmem-stress: --allocator: " + error + "\n";
    return outcome;
}

std::string program_directory()
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    const std::string program(path, length > 0 ? static_cast<std::size_t>(length) : 0);
    return program.substr(0, program.rfind('/') + 1);
}

bool same_file(const char *a, const char *b)
{
    struct stat sa{}, sb{};
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

// Whether the symbol that the program would call comes from this library.
bool comes_from(const char *symbol, const char *library)
{
    void *address = dlsym(RTLD_DEFAULT, symbol);
    Dl_info info{};
    return address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
           same_file(info.dli_fname, library);
}

SubjectOutcome prove(const std::string &path)
{
    for (const char *symbol : {"malloc", "free", "calloc", "realloc"})
        if (!comes_from(symbol, path.c_str()))
            return refuse("'" + path + "' does not provide " + symbol +
                          "; name a library that overrides malloc, free, calloc and realloc");
    SubjectOutcome outcome;
    outcome.ok = true;
    const char *library = path.c_str();
    outcome.support = {comes_from("malloc_usable_size", library), comes_from("aligned_alloc", library),
                       comes_from("posix_memalign", library),     comes_from("memalign", library),
                       comes_from("reallocarray", library),       comes_from("malloc_trim", library)};
    if (comes_from("free_sized", library))
        outcome.support.free_sized = reinterpret_cast<decltype(Support::free_sized)>(dlsym(RTLD_DEFAULT, "free_sized"));
    if (comes_from("free_aligned_sized", library))
        outcome.support.free_aligned_sized =
            reinterpret_cast<decltype(Support::free_aligned_sized)>(dlsym(RTLD_DEFAULT, "free_aligned_sized"));
    return outcome;
}

// Whether the program must run again to get the same addresses in every run. If so, randomisation is already switched
// off, and exec keeps that.
bool layout_to_fix()
{
    constexpr unsigned long query = 0xffffffff;
    const int now = personality(query);
    if (now >= 0 && (now & ADDR_NO_RANDOMIZE) != 0) return false;
    if (now >= 0 && personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) >= 0) return true;
    static constexpr char text[] =
        "hakmem-stress: this system refuses a fixed address layout (personality); the schedule of a malloc that "
        "decides by addresses may differ from run to run\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    return false;
}

SubjectOutcome run_again(const std::string &path, char **argv)
{
    const char *before = std::getenv("LD_PRELOAD");
    const std::string preload = before != nullptr && *before != '\0' ? path + ":" + before : path;
    setenv("LD_PRELOAD", preload.c_str(), 1);
    setenv(kSubjectGuard, path.c_str(), 1);
    execv("/proc/self/exe", argv);
    return refuse(std::string("cannot run again: ") + std::strerror(errno));
}

bool is_own_library(const std::string &allocator)
{
    return allocator == "hakmem" || allocator == "validate";
}

struct Found {
    std::string path;  // that LD_PRELOAD can name
    std::string fault; // why there is none
};

Found find_subject(const std::string &allocator)
{
    const std::string file = subject_path(allocator);
    Found found{preload_path(file), ""};
    if (found.path.empty())
        found.fault = "cannot use '" + file + "': LD_PRELOAD cannot name a path with a space or colon, and a link to " +
                      "it cannot be made in XDG_RUNTIME_DIR or /tmp: " + std::strerror(errno);
    return found;
}

// What is wrong with the library, and how to mend it; empty if nothing is.
std::string fault_of(const std::string &allocator, const std::string &path)
{
    const char *mend = is_own_library(allocator) ? "; build it, or choose system or the path of a library"
                                                 : "; name a malloc library, or choose hakmem, validate or system";
    std::string fault = library_fault(path);
    if (!fault.empty()) return "cannot use '" + path + "': " + fault + mend;
    fault = subject_probe(path, allocator);
    if (fault.empty() || fault.rfind("'" + path + "'", 0) == 0) return fault;
    return "cannot use '" + path + "': " + fault + mend;
}

}  // namespace

std::string subject_fault(const std::string &allocator)
{
    if (kDirect || kSanitized || allocator == "system") return "";
    const Found found = find_subject(allocator);
    return !found.fault.empty() ? found.fault : fault_of(allocator, found.path);
}

std::string subject_path(const std::string &allocator)
{
    const std::string named =
        is_own_library(allocator)
            ? program_directory() + (allocator == "hakmem" ? "libhakmem.so" : "libhakmem-validate.so")
            : allocator;
    char *resolved = realpath(named.c_str(), nullptr);
    const std::string file = resolved != nullptr ? resolved : named;
    std::free(resolved);
    return file;
}

std::string subject_library(const std::string &allocator, std::string &fault)
{
    const Found found = find_subject(allocator);
    fault = !found.fault.empty() ? found.fault : fault_of(allocator, found.path);
    return fault.empty() ? found.path : "";
}

SubjectOutcome subject_load(const std::string &allocator, bool fixed_layout, char **argv)
{
    const char *guard = std::getenv(kSubjectGuard);
    if (kDirect || allocator == "system") {
        if (guard != nullptr) unsetenv(kSubjectGuard);
        if (fixed_layout && layout_to_fix()) execv("/proc/self/exe", argv);
        SubjectOutcome outcome;
        outcome.ok = true;
        return outcome;
    }
    const Found found = find_subject(allocator);
    if (!found.fault.empty()) return refuse(found.fault);
    const std::string &path = found.path;
    const bool fix_layout = !kEmulated && fixed_layout && layout_to_fix(); // an emulator starts no program again
    if (guard != nullptr && path == guard && !fix_layout) return prove(path);

    if (const std::string fault = fault_of(allocator, path); !fault.empty()) return refuse(fault);
    return run_again(path, argv);
}

}  // namespace stress
