#include "order/malloc/subject.h"

#include <dlfcn.h>

#include "order/run/system.h"

namespace stress::order {
namespace {

void *library = nullptr;

template <class T> bool find(T *&function, const std::string &name)
{
    function = reinterpret_cast<T *>(dlsym(library, name.c_str()));
    return function != nullptr;
}

// Whether the library has this function itself: dlsym finds libc's malloc in every library that needs libc.
bool is_own(void *function)
{
    Dl_info of_function, of_libc;
    if (dladdr(function, &of_function) == 0) return false;
    return dladdr(reinterpret_cast<void *>(&dlsym), &of_libc) == 0 || of_function.dli_fbase != of_libc.dli_fbase;
}

void (*rpmalloc_end_plain)(int) = nullptr;

void end_rpmalloc_thread()
{
    rpmalloc_end_plain(1);
}

} // namespace

std::string subject_load(const std::string &path, Subject &subject)
{
    const unsigned begun_before = instrumented_begun;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char *why = dlerror();
        return std::string(why == nullptr ? path : why);
    }
    if (dlsym(RTLD_DEFAULT, "__tsan_init") == nullptr) return "hakmem-order was linked without its own entries";
    if (instrumented_begun == begun_before)
        return path + " was not compiled with -fsanitize=thread, so no access of it would be seen: see "
                      "docs/test-your-malloc.md";
    subject.path = path;
    for (const char *prefix : {"", "mi_", "rp", "hak_"}) {
        const std::string name = prefix;
        if (!find(subject.malloc, name + "malloc") || !is_own(reinterpret_cast<void *>(subject.malloc))) continue;
        subject.prefix = prefix;
        if (!find(subject.free, name + "free") || !find(subject.realloc, name + "realloc") ||
            !find(subject.calloc, name + "calloc"))
            return path + " has " + name + "malloc, but not free, realloc and calloc by such names";
        int (*initialize)(void *) = nullptr;
        if (name == "rp" && find(initialize, "rpmalloc_initialize")) {
            initialize(nullptr);
            find(subject.begin_thread, "rpmalloc_thread_initialize");
            if (find(rpmalloc_end_plain, "rpmalloc_thread_finalize")) subject.end_thread = end_rpmalloc_thread;
        }
        return {};
    }
    return path + " defines none of malloc, mi_malloc, rpmalloc and hak_malloc: build it as a shared library that does";
}

} // namespace stress::order
