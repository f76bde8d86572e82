#include "conform/subject.h"

#include <dlfcn.h>

#include <cstring>

#include "conform/calls.h"

namespace stress::conform {
namespace {

// The load address of the object that contains `address`; null if none does.
void *base_of(void *address)
{
    Dl_info info{};
    return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

template <typename Function> void assign(Function *&member, void *address)
{
    static_assert(sizeof member == sizeof address);
    std::memcpy(&member, &address, sizeof address);
}

}  // namespace

Subject subject_find()
{
    Subject subject;
    void *const malloc_address = dlsym(RTLD_DEFAULT, "malloc");
    void *const base = base_of(malloc_address);
#define STRESS_CONFORM_FIND(member, symbol, result, parameters)                                      \
    if (void *address = dlsym(RTLD_DEFAULT, symbol); address != nullptr && base_of(address) == base) \
        assign(subject.member, address);
    STRESS_CONFORM_ENTRIES(STRESS_CONFORM_FIND)
#undef STRESS_CONFORM_FIND
#define STRESS_CONFORM_FIND(member, symbol, result, parameters)                                   \
    if (void *address = dlsym(RTLD_NEXT, symbol); address != nullptr && base_of(address) == base) \
        assign(subject.member, address);
    STRESS_CONFORM_OPERATORS(STRESS_CONFORM_FIND)
#undef STRESS_CONFORM_FIND
    Dl_info info{};
    if (dladdr(malloc_address, &info) != 0 && info.dli_fname != nullptr)
        std::strncpy(subject.library, info.dli_fname, sizeof subject.library - 1);
    void *libc_only = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    subject.is_libc = libc_only != nullptr && base_of(libc_only) == base;
    subject.base = base;
    calls_intercept(subject);
    return subject;
}

bool subject_provides(const Subject &subject, const char *symbol)
{
    void *address = dlsym(RTLD_DEFAULT, symbol);
    return address != nullptr && base_of(address) == subject.base;
}

}  // namespace stress::conform
