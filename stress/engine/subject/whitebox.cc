#include "engine/subject/whitebox.h"

#include <dlfcn.h>
#include <hakmem/hakmem.h>
#include <hakmem/validate.h>

#include <cstdio>

namespace stress {
namespace {

template <typename T> T symbol(const char *name)
{
    return reinterpret_cast<T>(dlsym(RTLD_DEFAULT, name));
}

hak_sync_point_fn **hook_word()
{
    static hak_sync_point_fn **const word = symbol<hak_sync_point_fn **>("hak_sync_point_hook");
    return word;
}

hak_clock_fn **clock_word()
{
    static hak_clock_fn **const word = symbol<hak_clock_fn **>("hak_clock_hook");
    return word;
}

decltype(&hak_inspect) inspect()
{
    static const auto function = symbol<decltype(&hak_inspect)>("hak_inspect");
    return function;
}

decltype(&hak_purge) purge()
{
    static const auto function = symbol<decltype(&hak_purge)>("hak_purge");
    return function;
}

decltype(&hak_stats_get) stats_get()
{
    static const auto function = symbol<decltype(&hak_stats_get)>("hak_stats_get");
    return function;
}

}  // namespace

bool whitebox_has_sync_points()
{
    return hook_word() != nullptr;
}

bool whitebox_set_hook(SyncPointHook *hook)
{
    if (hook_word() == nullptr) return false;
    *hook_word() = hook;
    return true;
}

void whitebox_attach(SyncPointHook *hook, ClockHook *clock)
{
    whitebox_set_hook(hook);
    if (clock_word() != nullptr) *clock_word() = clock;
}

void whitebox_detach()
{
    whitebox_attach(nullptr, nullptr);
}

bool whitebox_can_inspect()
{
    return inspect() != nullptr;
}

std::string whitebox_broken_law()
{
    hak_inspect_report report{};
    if (inspect() == nullptr || inspect()(&report)) return "";
    char text[256];
    std::snprintf(text, sizeof text, "%s; at %p", report.broken_law, report.address);
    return text;
}

bool whitebox_shows_use()
{
    return purge() != nullptr && stats_get() != nullptr;
}

// From two books: inspect counts the blocks that the program holds, the statistics count the memory outside slabs. A
// block that the program freed and the subject lost is in no program's hands, but the statistics still count it.
InUse whitebox_in_use()
{
    // Looked up before anything is counted: for a missing name the loader allocates a message.
    const auto look = inspect();
    if (!whitebox_shows_use()) return {};
    purge()();
    hak_inspect_report report{};
    if (look != nullptr) look(&report);
    hak_stats stats{};
    stats_get()(&stats);
    return {report.live_blocks, stats.small_bytes + stats.run_bytes + stats.huge_bytes};
}

}  // namespace stress
