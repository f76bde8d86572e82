#include "engine/subject/extras.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "engine/subject/inside.h"
#include "engine/subject/subject.h"

namespace stress {
namespace {

template <typename T> bool find(T &function, const char *name)
{
    function = reinterpret_cast<T>(dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
}

struct LimitCalls {
    decltype(&hak_limit_set) set;
    decltype(&hak_figures_get) figures;
};

const LimitCalls *limit_calls()
{
    static LimitCalls calls;
    static const bool found = find(calls.set, "hak_limit_set") && find(calls.figures, "hak_figures_get");
    return found ? &calls : nullptr;
}

// --- a profile: gzip with stored blocks, in it pprof's protobuf --------------------------------------------------

struct Bytes {
    const unsigned char *at, *end;

    bool has(std::size_t count) const { return static_cast<std::size_t>(end - at) >= count; }

    bool number(std::uint64_t &value)
    {
        value = 0;
        for (int shift = 0; has(1) && shift < 64; shift += 7) {
            const unsigned char byte = *at++;
            value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if ((byte & 0x80) == 0) return true;
        }
        return false;
    }

    // The next field of a message: a number, or bytes.
    bool field(std::uint64_t &name, std::uint64_t &value, Bytes &bytes)
    {
        std::uint64_t key = 0;
        if (!number(key) || !number(value)) return false;
        name = key >> 3;
        bytes = {at, at};
        if ((key & 7) == 0) return true;
        if ((key & 7) != 2 || !has(value)) return false;
        bytes.end = at += value;
        return true;
    }
};

// Joins the stored blocks in place. False: a block is compressed, or the file is cut short.
bool unpack(unsigned char *file, std::size_t size, Bytes &content)
{
    constexpr std::size_t kHead = 10, kBlockHead = 5;
    Bytes in{file + kHead, file + size};
    unsigned char *out = file;
    content.at = file;
    for (bool is_last = size <= kHead; !is_last;) {
        if (!in.has(kBlockHead) || (in.at[0] & 6) != 0) return false;
        is_last = (in.at[0] & 1) != 0;
        const std::size_t count = in.at[1] + std::size_t{256} * in.at[2];
        in.at += kBlockHead;
        if (!in.has(count)) return false;
        for (std::size_t i = 0; i < count; ++i) *out++ = *in.at++;
    }
    content.end = out;
    return true;
}

// sample: field 2 of the profile; its values: field 2, packed: objects and bytes allocated, objects and bytes in use.
const char *add_samples(Bytes profile, ProfileSums &sums)
{
    std::uint64_t name = 0, value = 0;
    Bytes sample{}, values{};
    while (profile.at != profile.end) {
        if (!profile.field(name, value, sample)) return "a field is cut short";
        while (name == 2 && sample.at != sample.end) {
            std::uint64_t inner = 0;
            if (!sample.field(inner, value, values)) return "a sample is cut short";
            if (inner != 2) continue;
            std::uint64_t figures[4];
            for (std::uint64_t &figure : figures)
                if (!values.number(figure)) return "a sample has fewer than four values";
            sums.allocated_bytes += static_cast<double>(figures[1]);
            sums.live_bytes += static_cast<double>(figures[3]);
        }
    }
    return nullptr;
}

} // namespace

const HeapCalls *heap_calls()
{
    static HeapCalls calls;
    static const bool found = find(calls.make, "hak_heap_new") && find(calls.malloc, "hak_heap_malloc") &&
                              find(calls.calloc, "hak_heap_calloc") && find(calls.realloc, "hak_heap_realloc") &&
                              find(calls.free_all, "hak_heap_free_all") && find(calls.destroy, "hak_heap_destroy");
    return found ? &calls : nullptr;
}

bool subject_has_limit()
{
    return limit_calls() != nullptr;
}

void subject_limit_set(std::uint64_t bytes)
{
    limit_calls()->set(bytes == 0 ? SIZE_MAX : bytes);
}

void subject_limit_tighten(std::uint64_t more_bytes)
{
    subject::call_purge(); // what it keeps would serve the program for long
    hak_figures figures{};
    limit_calls()->figures(&figures, sizeof figures);
    limit_calls()->set(figures.committed_bytes + more_bytes);
}

void subject_give_up()
{
    static decltype(&hak_purge_all) purge_all;
    static int (*mallctl)(const char *, void *, std::size_t *, void *, std::size_t);
    static void (*collect)(bool);
    static void (*release)();
    static int (*trim)(std::size_t);
    static const bool looked = [] {
        return find(purge_all, "hak_purge_all") || find(mallctl, "mallctl") || find(collect, "mi_collect") ||
               find(release, "MallocExtension_ReleaseFreeMemory") || find(trim, "malloc_trim");
    }();
    const InsideSubject inside;
    if (!looked) return;
    if (purge_all != nullptr) purge_all();
    else if (mallctl != nullptr) mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0); // MALLCTL_ARENAS_ALL
    else if (collect != nullptr) collect(true);
    else if (release != nullptr) release();
    else trim(0);
}

bool subject_background()
{
    decltype(&hak_background) background = nullptr;
    if (find(background, "hak_background")) return background(true) == 0;
    int (*mallctl)(const char *, void *, std::size_t *, void *, std::size_t) = nullptr;
    bool on = true;
    if (!find(mallctl, "mallctl") || mallctl("background_thread", nullptr, nullptr, &on, sizeof on) != 0) return false;
    // By default 10 seconds. The first sets it for arenas that are made from now on, the second for all that are there
    // (4096: MALLCTL_ARENAS_ALL).
    ssize_t decay_ms = 1000;
    mallctl("arenas.dirty_decay_ms", nullptr, nullptr, &decay_ms, sizeof decay_ms);
    mallctl("arena.4096.dirty_decay_ms", nullptr, nullptr, &decay_ms, sizeof decay_ms);
    return true;
}

bool subject_profile_start(std::size_t mean_bytes)
{
    decltype(&hak_profile_start) start = nullptr;
    decltype(&hak_profile_dump) dump = nullptr;
    return find(start, "hak_profile_start") && find(dump, "hak_profile_dump") && start(mean_bytes) == 0;
}

const char *subject_profile_read(ProfileSums &sums)
{
    decltype(&hak_profile_dump) dump = nullptr;
    char path[64];
    const int fd = memfd_create("profile", MFD_CLOEXEC);
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct stat status{};
    if (fd < 0 || !find(dump, "hak_profile_dump") || dump(path) != 0 || fstat(fd, &status) != 0) {
        if (fd >= 0) close(fd);
        return "it was not written";
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    void *file = size == 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED) return "it is empty";
    Bytes content{};
    const char *fault = unpack(static_cast<unsigned char *>(file), size, content) ? add_samples(content, sums)
                                                                                  : "it is not gzip with stored blocks";
    munmap(file, size);
    return fault;
}

} // namespace stress
