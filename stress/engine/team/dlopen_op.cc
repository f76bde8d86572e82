#include "engine/team/dlopen_op.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "engine/base/build.h"
#include "engine/subject/subject.h"

namespace stress {
namespace {

constexpr const char *kNames[] = {"dynamic_tls", "static_tls", "objects", "dependent"};
constexpr std::size_t kSizes[] = {24, 300, 5000};
// Separates the generations of these blocks from the seat's.
constexpr std::uint32_t kDlopenSeatOffset = 2 * kOpThreadsMax;

struct Plugin {
    void *library;
    void *(*take)(std::size_t);
    void (*give)(void *);
    int (*use)();
};

void path_of(const char *name, char (&path)[4096])
{
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    path[length > 0 ? length : 0] = '\0';
    char *slash = std::strrchr(path, '/');
    std::snprintf(slash != nullptr ? slash : path, 64, "/plugin/lib%s.so", name);
}

template <typename Function> Function *find(void *library, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(library, name));
}

bool load(const char *name, Plugin &plugin)
{
    char path[4096];
    path_of(name, path);
    plugin.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin.library == nullptr) return false;
    plugin.take = find<void *(std::size_t)>(plugin.library, "plugin_take");
    plugin.give = find<void(void *)>(plugin.library, "plugin_give");
    plugin.use = find<int()>(plugin.library, "plugin_use");
    return plugin.take != nullptr && plugin.give != nullptr && plugin.use != nullptr;
}

// Blocks cross the border between program and library: allocated on one side and freed on the other, both ways. All are
// judged.
bool trade(const Plugin &plugin, Seat &seat, InterpShared &shared)
{
    const Witness witness = seat.interp.witness();
    std::uint64_t number = read(seat.process.counts.plugins) * 16;
    Block there[std::size(kSizes)] = {}, here[std::size(kSizes)] = {};
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        for (Block *block : {&there[i], &here[i]}) {
            const bool is_there = block == &there[i];
            void *start = is_there ? plugin.take(kSizes[i]) : subject::call_malloc(kSizes[i]);
            if (start == nullptr) continue;
            *block = {start, kSizes[i], generation_make(seat.index + kDlopenSeatOffset, number++), 0};
            if (!shared.oracle.allocated(*block, Oracle::kUsableUnknown, false, witness)) return false;
        }
    }
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        if (there[i].start != nullptr) {
            if (!shared.oracle.before_free(there[i], witness)) return false;
            subject::call_free(there[i].start);
        }
        if (here[i].start != nullptr) {
            if (!shared.oracle.before_free(here[i], witness)) return false;
            plugin.give(here[i].start);
        }
    }
    return true;
}

} // namespace

const char *dlopen_refusal()
{
    if (kDirect) return "a library's malloc is libc's here, not the allocator that is linked in";
    char path[4096];
    path_of(kNames[0], path);
    if (access(path, R_OK) != 0) return "the libraries plugin/lib*.so are not beside the program; build them";
    return nullptr;
}

bool dlopen_apply(std::size_t which, Seat &seat, FailureLog &failures, InterpShared &shared)
{
    if (dlopen_refusal() != nullptr) return true; // the plan has already said so
    const char *name = kNames[which % std::size(kNames)];
    const SchedHold hold;
    const std::uint32_t mark = shared.scarce_mark();
    Plugin plugin{};
    if (!load(name, plugin)) {
        if (shared.scarce_since(mark)) return true;
        const char *why = dlerror();
        failures.add(rule::kLoading, seat.interp.witness(), "dlopen of plugin/lib%s.so failed: %s", name,
                     why != nullptr ? why : "no reason given");
        return false;
    }
    bump(seat.process.counts.plugins, 1);
    const bool sound = trade(plugin, seat, shared);
    const int fault = plugin.use();
    const bool scarce = shared.scarce_since(mark);
    if (fault != 0 && !scarce)
        failures.add(rule::kLoading, seat.interp.witness(), "plugin/lib%s.so found fault number %d with its memory",
                     name, fault);
    if (dlclose(plugin.library) != 0)
        failures.add(rule::kLoading, seat.interp.witness(), "dlclose of plugin/lib%s.so failed: %s", name, dlerror());
    return sound && (fault == 0 || scarce);
}

} // namespace stress
