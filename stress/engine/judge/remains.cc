#include "engine/judge/remains.h"

#include <fmt/core.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/base/build.h"
#include "engine/base/file.h"
#include "engine/subject/extras.h"
#include "engine/subject/whitebox.h"

namespace stress {
namespace {

// How much more a strict run may hold at the end than after its second round, for each thread, because threads met
// otherwise than before. Measured on libhakmem: a superslab of 4 MiB for each of two threads, and three mappings for four.
// Resident bytes grow a little in each round of a sound malloc too, and of the harness: 8 to 45 KB a round for six mallocs
// in 1,000,000 ops of one thread. A malloc that loses one free in a thousand: 260 KB.
constexpr std::uint64_t kAny = UINT64_MAX;
constexpr struct {
    const char *name;
    std::uint64_t slack_per_thread;
    std::uint64_t growth_min = 1; // what a round must add for the round to count; of resident bytes for each thread
} kFigures[kFigureCount] = {
    {"open mappings", 2},
    {"closed mappings", 2},
    {"file mappings", kAny}, // libc keeps a library whose destructors wait
    {"bytes", 4 << 20},
    {"file bytes", kAny},
    {"descriptors", 0},
    {"keys", 0},
    {"threads", 0},
    {"bytes in use", kAny}, // destroyed heaps are remembered for a while (validate)
    {"resident bytes", kAny, 64 << 10},
};

// libc keeps stacks of ended threads for later ones, up to 40 MiB by default. A larger stack that is given back makes
// it unmap them all.
void drop_kept_stacks()
{
    constexpr std::size_t larger_bytes = std::size_t{64} << 20;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, larger_bytes);
    pthread_t thread{};
    if (pthread_create(&thread, &attributes, [](void *nothing) { return nothing; }, nullptr) == 0)
        pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

std::uint64_t descriptor_count()
{
    return directory_names("/proc/self/fd").size();
}

// Without threads that are ending: a thread that was joined may stay in /proc for a moment.
std::uint64_t thread_count()
{
    constexpr unsigned exiting = 0x4; // PF_EXITING, see proc_pid_stat(5), field 9
    std::uint64_t count = 0;
    for (const std::string &id : directory_names("/proc/self/task")) {
        std::string text;
        unsigned flags = 0;
        if (!file_read(fmt::format("/proc/self/task/{}/stat", id), text).empty()) continue; // it has ended
        const char *field = std::strrchr(text.c_str(), ')'); // its name may contain any character
        if (field == nullptr || std::sscanf(field, ") %*c %*s %*s %*s %*s %*s %u", &flags) != 1) continue;
        count += (flags & exiting) == 0;
    }
    return count;
}

// Takes the keys that are left, and gives them back.
std::uint64_t key_count()
{
    constexpr std::size_t most = 1024; // PTHREAD_KEYS_MAX of glibc
    static pthread_key_t keys[most];
    std::size_t left = 0;
    while (left < most && pthread_key_create(&keys[left], nullptr) == 0) ++left;
    for (std::size_t i = 0; i < left; ++i) pthread_key_delete(keys[i]);
    return most - left;
}

// Of anonymous memory; 0 where the kernel is older than 4.14.
std::uint64_t resident_bytes()
{
    constexpr const char *key = "\nAnonymous:";
    std::string text;
    if (!file_read("/proc/self/smaps_rollup", text).empty()) return 0;
    const std::size_t at = text.find(key);
    return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + std::strlen(key), nullptr, 10) * 1024;
}

} // namespace

bool is_shadow(unsigned long start)
{
    return start >= 0x010000000000 && start < 0x550000000000;
}

void held_add_mapping(Held &held, const char *line)
{
    unsigned long start = 0, end = 0;
    char access[8] = "";
    int path = 0;
    if (std::sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &start, &end, access, &path) < 3) return;
    if (kSanitized && is_shadow(start)) return;
    const bool file = path != 0 && line[path] == '/', open = access[0] == 'r' || access[1] == 'w';
    held[file ? kFileMappings : open ? kOpenMappings : kClosedMappings] += 1;
    held[file ? kFileBytes : kBytes] += end - start;
}

Held held_now()
{
    Held held{};
    if (!kSanitized) drop_kept_stacks();
    held[kDescriptors] = descriptor_count();
    held[kKeys] = key_count();
    held[kThreads] = thread_count();
    subject_give_up();
    held[kUsedBytes] = whitebox_in_use().bytes;
    subject_give_up();
    if (!kSanitized) held[kResidentBytes] = resident_bytes(); // a sanitizer keeps what was freed
    static char buffer[1 << 16]; // not from the subject
    if (FILE *maps = std::fopen("/proc/self/maps", "re")) {
        std::setvbuf(maps, buffer, _IOFBF, sizeof buffer);
        char line[4096 + 256];
        while (std::fgets(line, sizeof line, maps) != nullptr) held_add_mapping(held, line);
        std::fclose(maps);
    }
    return held;
}

std::string remains_text(const Rounds &rounds)
{
    std::string text;
    for (std::size_t figure = 0; figure < kFigureCount; ++figure) {
        text += fmt::format("{}{}", text.empty() ? "" : "; ", kFigures[figure].name);
        for (const Held &held : rounds) text += fmt::format(" {}", held[figure]);
    }
    return text;
}

std::string remains_fault(const Rounds &rounds, bool strict, std::uint32_t threads)
{
    if (rounds.size() < (strict ? kRepeatsMin : kRepeatsMinLenient)) return "";
    for (std::size_t figure = 0; figure < kFigureCount; ++figure) {
        const std::uint64_t least = kFigures[figure].growth_min * (figure == kResidentBytes ? threads : 1);
        bool grows = true;
        for (std::size_t i = 1; i < rounds.size(); ++i) grows &= rounds[i][figure] >= rounds[i - 1][figure] + least;
        const std::uint64_t slack = kFigures[figure].slack_per_thread, second = rounds[1][figure];
        const bool above = strict && slack != kAny && rounds.back()[figure] > second + slack * threads;
        if (!grows && !above) continue;
        std::string text = fmt::format("{} after each round:", kFigures[figure].name);
        for (const Held &held : rounds) text += fmt::format(" {}", held[figure]);
        if (!grows) text += fmt::format("; the last may be {} above the second", slack * threads);
        return text;
    }
    return "";
}

} // namespace stress
