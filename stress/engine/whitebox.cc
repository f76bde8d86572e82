#include "engine/whitebox.h"

#include <dlfcn.h>
#include <hakmem/validate.h>

#include <cstdio>

#include "engine/sched.h"

namespace stress {
namespace {

template <typename T>
T symbol(const char *name)
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

void whitebox_attach_sched()
{
    whitebox_set_hook(sched_subject_step);
    if (clock_word() != nullptr) *clock_word() = sched_subject_ms;
}

void whitebox_detach_sched()
{
    whitebox_set_hook(nullptr);
    if (clock_word() != nullptr) *clock_word() = nullptr;
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

std::uint64_t whitebox_live_blocks()
{
    static const auto purge = symbol<void (*)()>("hak_purge");
    hak_inspect_report report{};
    if (inspect() == nullptr || purge == nullptr) return 0;
    purge();
    inspect()(&report);
    return report.live_blocks;
}

}  // namespace stress
