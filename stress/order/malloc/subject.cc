#include "order/malloc/subject.h"

#include <dlfcn.h>
#include <link.h>

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

const ElfW(Dyn) * entry(const link_map &map, ElfW(Sxword) tag)
{
    for (const auto *at = map.l_ld; at->d_tag != DT_NULL; ++at)
        if (at->d_tag == tag) return at;
    return nullptr;
}

// A function that the library defines and calls, while its call reaches libc's: the program's libc comes before it. Its
// calloc then takes blocks of libc's malloc, and its free breaks libc's heap. nullptr: none.
const char *leads_to_libc()
{
    link_map *map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return nullptr;
    const auto *table = entry(*map, DT_JMPREL), *bytes = entry(*map, DT_PLTRELSZ), *symbols = entry(*map, DT_SYMTAB),
               *names = entry(*map, DT_STRTAB);
    if (table == nullptr || bytes == nullptr || symbols == nullptr || names == nullptr) return nullptr;
    const auto *calls = reinterpret_cast<const ElfW(Rela) *>(table->d_un.d_ptr);
    for (std::size_t i = 0; i < bytes->d_un.d_val / sizeof *calls; ++i) {
        const auto &symbol = reinterpret_cast<const ElfW(Sym) *>(symbols->d_un.d_ptr)[ELF64_R_SYM(calls[i].r_info)];
        void *reached = *reinterpret_cast<void **>(map->l_addr + calls[i].r_offset);
        if (symbol.st_shndx != SHN_UNDEF && !is_own(reached))
            return reinterpret_cast<const char *>(names->d_un.d_ptr) + symbol.st_name;
    }
    return nullptr;
}

// Where the library of this function has its variables.
void find_variables(void *function, Subject &subject)
{
    struct Wanted {
        Subject *subject;
        std::uintptr_t function;
    } wanted{&subject, reinterpret_cast<std::uintptr_t>(function)};
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *argument) {
            const auto &[found, at] = *static_cast<Wanted *>(argument);
            Subject library;
            bool is_it = false;
            for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
                const auto &part = info->dlpi_phdr[i];
                const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
                if (part.p_type == PT_TLS)
                    library.thread_local_variables = {info->dlpi_tls_modid, reinterpret_cast<const void *>(start),
                                                      part.p_filesz, part.p_memsz};
                if (part.p_type != PT_LOAD) continue;
                is_it |= at - start < part.p_memsz;
                if ((part.p_flags & PF_W) != 0) library.variables.emplace_back(start, part.p_memsz);
            }
            if (!is_it) return 0;
            found->thread_local_variables = library.thread_local_variables;
            found->variables = library.variables;
            return 1;
        },
        &wanted);
}

int (*trim_to_0)(std::size_t) = nullptr;
void (*collect)(bool) = nullptr;

void trim()
{
    trim_to_0(0);
}

void collect_all()
{
    collect(true);
}

void (*rpmalloc_end_plain)(int) = nullptr;

void end_rpmalloc_thread()
{
    rpmalloc_end_plain(1);
}

} // namespace

void *subject_symbol(const char *name)
{
    return dlsym(library, name);
}

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
    if (const char *name = leads_to_libc())
        return path + " defines " + name + ", but its own calls of it reach libc's: link it with -Wl,-Bsymbolic";
    subject.path = path;
    subject.scenarios = static_cast<const order_scenario *>(subject_symbol("order_scenarios"));
    for (const char *prefix : {"", "mi_", "rp", "hak_"}) {
        const std::string name = prefix;
        if (!find(subject.malloc, name + "malloc") || !is_own(reinterpret_cast<void *>(subject.malloc))) continue;
        subject.prefix = prefix;
        if (!find(subject.free, name + "free") || !find(subject.realloc, name + "realloc") ||
            !find(subject.calloc, name + "calloc"))
            return path + " has " + name + "malloc, but not free, realloc and calloc by such names";
        find_variables(reinterpret_cast<void *>(subject.malloc), subject);
        if (find(trim_to_0, "malloc_trim") && is_own(reinterpret_cast<void *>(trim_to_0))) subject.trim = trim;
        else if (find(collect, "mi_collect")) subject.trim = collect_all;
        if (!find(subject.aligned_alloc, name + "aligned_alloc") ||
            !is_own(reinterpret_cast<void *>(subject.aligned_alloc)))
            subject.aligned_alloc = nullptr;
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
