// The loader: modules with thread-local data, constructors that allocate, libc calls inside malloc that allocate
// themselves, and the loader's locks.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "conform/check.h"
#include "conform/files.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

// From plugin/tls.c: writes its thread-local arrays and returns a sum that depends on all of them.
using TlsTouch = int (*)(int);

TlsTouch tls_touch_of(void *module)
{
    TlsTouch touch = nullptr;
    void *address = dlsym(module, "conform_tls_touch");
    memcpy(&touch, &address, sizeof touch);
    return touch;
}

Verdict use_module(const Subject &s, const char *name)
{
    for (int round = 0; round < 3; ++round) {
        void *module = dlopen(file_path(name).c_str(), RTLD_NOW);
        if (module == nullptr) return fail("%s", dlerror());
        const TlsTouch touch = tls_touch_of(module);
        // The thread's first allocation is the loader's, for the module's data.
        for (int i = 0; i < 6; ++i) {
            const char *wrong = nullptr;
            if (!in_thread([&] {
                    if (touch(i) != touch(i)) wrong = "thread-local data of a module is in disorder";
                    else wrong = exercise(s);
                }))
                return fail("no thread");
            if (wrong != nullptr) return fail("%s", wrong);
        }
        dlclose(module);
    }
    return pass();
}

Verdict tls_of_a_module(const Subject &s)
{
    return use_module(s, "libconform-tls.so");
}
Verdict static_tls_left(const Subject &s)
{
    return use_module(s, "libconform-static_tls.so");
}

// Copies, so that each is a separate module. The loader's table for a thread must then grow, which it does by realloc.
Verdict many_modules(const Subject &s)
{
    constexpr int count = 50;
    void *modules[count];
    static char image[1 << 20];
    const int from = open(file_path("libconform-tls.so").c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t length = read(from, image, sizeof image);
    close(from);
    if (length <= 0) return fail("cannot read libconform-tls.so");
    std::atomic<int> loaded{0}, touched{0};
    auto other = [&] {  // started earlier: it has the old table
        wait_until(loaded, 1);
        if (loaded.load() > 1) return;
        for (void *module : modules) tls_touch_of(module)(1);
        touched = 1;
    };
    Thread<decltype(other)> thread(other);
    const auto give_up = [&](const Verdict &verdict) {
        loaded = 2;
        return verdict;
    };
    for (void *&module : modules) {
        const int copy = memfd_create("module", 0);
        char path[64];
        std::snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
        if (write(copy, image, static_cast<std::size_t>(length)) != length)
            return give_up(fail("cannot copy the module"));
        if ((module = dlopen(path, RTLD_NOW)) == nullptr) return give_up(fail("%s", dlerror()));
        tls_touch_of(module)(2);
        close(copy);
    }
    loaded = 1;
    thread.join();
    if (touched.load() != 1) return fail("no thread");
    for (void *module : modules) dlclose(module);
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

Verdict constructor_allocates(const Subject &s)
{
    for (int round = 0; round < 20; ++round) {
        void *module = dlopen(file_path("libconform-constructor.so").c_str(), RTLD_NOW);
        if (module == nullptr) return fail("%s", dlerror());
        void **kept = static_cast<void **>(dlsym(module, "conform_constructor_block"));
        if (kept == nullptr || *kept == nullptr) return fail("malloc(5000) in the constructor of a module gave NULL");
        if (s.usable_size != nullptr && s.usable_size(*kept) < 5000)
            return fail("malloc_usable_size(%p) of malloc(5000) in a module's constructor is %zu", *kept,
                        s.usable_size(*kept));
        *kept = launder(s.realloc(*kept, 50'000));  // the module's destructor frees it
        dlclose(module);
        if (dlopen("/nowhere/to/be/found.so", RTLD_NOW) != nullptr || dlerror() == nullptr)
            return fail("dlopen of nothing succeeded");
    }
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

// dl_iterate_phdr holds a lock of the loader during the callback. If a malloc takes that lock while it holds its own,
// it waits for this thread, and this thread waits for it at its next malloc.
Verdict without_the_loader(const Subject &s)
{
    struct Held {
        const Subject &subject;
        bool ended;
        const char *wrong;
    } held{s, false, nullptr};
    const auto callback = [](dl_phdr_info *, std::size_t, void *data) {
        auto &h = *static_cast<Held *>(data);
        static std::atomic<int> done;
        auto body = [&h] {
            h.wrong = exercise(h.subject);
            if (h.wrong == nullptr) h.wrong = exercise(h.subject);
            done = 1;
            for (;;) sleep_ms(1000);
        };
        static decltype(body) *worker = &body;
        pthread_t thread;
        // This thread allocates the new thread's descriptor with calloc, under the lock.
        if (pthread_create(
                &thread, nullptr,
                [](void *) -> void * {
                    (*worker)();
                    return nullptr;
                },
                nullptr) != 0)
            return 1;
        now_doing("malloc in a thread while another is in dl_iterate_phdr");
        wait_until(done, 1);
        h.ended = true;
        return 1;
    };
    dl_iterate_phdr(callback, &held);
    if (!held.ended) return fail("no thread");
    return held.wrong == nullptr ? pass() : fail("%s", held.wrong);
}

Verdict no_files_left(const Subject &s)
{
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return skip("the limit on open files cannot be lowered");
    for (int i = 0; i < 5; ++i) {
        const char *wrong = exercise(s);
        if (wrong == nullptr && !in_thread([&] { wrong = exercise(s); })) return fail("no thread");
        if (wrong != nullptr) return fail("where no file can be opened, %s", wrong);
    }
    return pass();
}

Verdict dlopen_the_library(const Subject &s)
{
    if (s.is_libc) return skip("libc cannot be loaded by dlopen");
    return in_fresh_program("dlopen-library", s);
}

Verdict no_environ(const Subject &s)
{
    return in_fresh_program("no-environ", s);
}
Verdict dlsym_first(const Subject &s)
{
    return in_fresh_program("dlsym-first", s);
}

Verdict libc_allocates(const Subject &s)
{
    preload_after("libconform-reenter.so");
    return in_fresh_program("reenter", s);
}

Verdict calls_under_a_lock(const Subject &s)
{
    preload_after("libconform-begin_once.so");
    return in_fresh_program("begin-once", s);
}

Verdict another_namespace(const Subject &s)
{
    return in_fresh_program("dlmopen", s);
}

Verdict new_bound_elsewhere(const Subject &s)
{
    return in_fresh_program("new-bound-elsewhere", s);
}

constexpr Check kLoadingChecks[] = {
    {"tls-of-a-module",
     "a module's thread-local data may be the first allocation of a thread",
     "C23 6.2.4: objects of thread storage duration exist in each thread; libc allocates them by malloc",
     "jemalloc#937, jemalloc#2951",
     {26, 39},
     tls_of_a_module},
    {"static-tls-left",
     "the library leaves room for the static thread-local data of modules that come later",
     "quality: static thread-local memory is scarce; a library that takes most of it keeps others from loading",
     "jemalloc#937, jemalloc#1237, mimalloc#147",
     {26},
     static_tls_left},
    {"many-modules",
     "the loader's tables for 50 modules with thread-local data grow, also of its early blocks",
     "dlopen(3): modules can be loaded; the loader allocates by malloc",
     "jemalloc#1249, mimalloc#244",
     {26, 28},
     many_modules},
    {"constructor-allocates",
     "constructors and destructors of modules may allocate and free",
     "dlopen(3): constructors run before dlopen returns, and may allocate",
     "gperftools#614, gperftools#13",
     {26},
     constructor_allocates},
    {"dlopen-the-library",
     "the library can be loaded by dlopen, and used in threads",
     "quality: a library that is loaded by dlopen needs its thread-local data in dynamic memory",
     "jemalloc#1237, jemalloc#937, mimalloc#147",
     {26},
     dlopen_the_library},
    {"dlmopen",
     "threads end well, and keys keep their values, where a second C library came by dlmopen",
     "quality: a libc that came by dlmopen has keys of its own; they must not change what a malloc of the program has stored",
     "an early libhakmem",
     {22, 26},
     another_namespace},
    {"new-bound-elsewhere",
     "new and delete may be a module's own at one end, and the library's at the other",
     "C++20 [replacement.functions]: operators are replaced for the whole program; where they are not, new is malloc and delete is free",
     "an early libhakmem; rustc's libLLVM",
     {15, 26},
     new_bound_elsewhere},
    {"malloc-without-the-loader",
     "malloc does not wait for the loader's lock",
     "dl_iterate_phdr(3): a callback holds the loader's lock, and other threads may allocate meanwhile",
     "gperftools#1080, gperftools#1159",
     {26},
     without_the_loader},
    {"dlsym-first",
     "dlsym and dlerror may be the first to allocate",
     "dlsym(3): any thread may call it first; libc allocates by calloc",
     "gperftools#13, glibc dlsym",
     {27},
     dlsym_first},
    {"no-environ",
     "malloc does not need the environment",
     "C23 7.24.3: malloc needs no environment; a program may clear it",
     "gperftools aeef3b4",
     {27},
     no_environ},
    {"no-files-left",
     "malloc does not need to open files",
     "C23 7.24.3: malloc needs no descriptor; a program may have none left",
     "google/tcmalloc#78",
     {27},
     no_files_left},
    {"libc-allocates",
     "libc functions that malloc calls (sysconf, getenv, open, read) may allocate themselves",
     "quality: libc may allocate in getenv, open or sysconf; a malloc that calls them before it is ready never ends",
     "mimalloc#1100, google/tcmalloc#78",
     {27},
     libc_allocates},
    {"calls-under-a-lock",
     "a library between malloc and libc may allocate before it is ready, with a lock held (open, sysconf)",
     "quality: a malloc that calls open or sysconf at its start deadlocks if a library wraps them, allocates, and holds a lock",
     "mimalloc#713, mimalloc#1100",
     {27},
     calls_under_a_lock},
};

}  // namespace

std::span<const Check> loading_checks()
{
    return kLoadingChecks;
}

}  // namespace stress::conform
