#include "campaign/page/library.h"

#include <link.h>
#include <unistd.h>

#include <cstring>

#include "engine/base/build_id.h"
#include "engine/base/file.h"
#include "engine/subject/subject_load.h"

namespace stress {
namespace {

int find_libc(dl_phdr_info *info, std::size_t, void *path)
{
    if (std::strstr(info->dlpi_name, "/libc.so.6") == nullptr) return 0;
    *static_cast<std::string *>(path) = info->dlpi_name;
    return 1;
}

std::string libc_version()
{
    char text[128] = "";
#ifdef _CS_GNU_LIBC_VERSION
    confstr(_CS_GNU_LIBC_VERSION, text, sizeof text);
#endif
    return *text == '\0' ? "" : std::string(", ") + text;
}

} // namespace

Library library_of(const std::string &allocator)
{
    Library library{allocator, "", "", ""};
    if (allocator != "system") {
        library.path = subject_path(allocator);
        if (!file_exists(library.path)) library.fault = library.path + " is not here";
    } else if (dl_iterate_phdr(find_libc, &library.path) == 0) {
        library.fault = "it is linked statically";
    }
    if (!library.fault.empty()) return library;
    library.build_id = file_build_id(library.path);
    if (allocator == "system") library.path += libc_version();
    return library;
}

} // namespace stress
