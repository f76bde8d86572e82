// golden_test_support.cc: see golden_test_support.h.
#include "entry/golden_test_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

#include <fstream>
#include <map>
#include <sstream>

extern "C" {
#include "os/os.h"
#include "superslab/pagemap.h"
}

namespace test::golden {
namespace {

constexpr uintptr_t ARENA_END = uintptr_t{0x5f} << 40, ARENA_BYTES = uintptr_t{1} << 40;
constexpr size_t SYSTEM_PAGE_BYTES = 4096;
constexpr int MADV_COLLAPSE_HERE = 25; // younger than the C library may be
constexpr uint64_t START_MS = 1'000'000;

bool is_on, counts_resident = true;
std::string program_name;
uintptr_t lowest = ARENA_END; // where the last mapping starts; the next one ends there, as the kernel does it
uint64_t now_ms, digest, calls_until_failure, failure_distance;
FILE *transcript;

enum call { CALL_mmap, CALL_munmap, CALL_mprotect, CALL_mremap, CALL_madvise, CALLS };
constexpr const char *CALL_NAMES[CALLS] = {"mmap", "munmap", "mprotect", "mremap", "madvise"};
struct {
    uint64_t count, bytes;
} asked[CALLS];

// FNV-1a, of the eight bytes of a value.
void add(uint64_t value)
{
    for (int i = 0; i < 8; i++) digest = (digest ^ (value >> i * 8 & 0xff)) * 0x100000001b3;
}

// An address as the same number in every run: in the arena, in the page map, or the place of neither, 0.
uint64_t place_of(uintptr_t address)
{
    auto map = reinterpret_cast<uintptr_t>(static_cast<void *>(pagemap_tags));
    if (address >= ARENA_END - ARENA_BYTES && address <= ARENA_END) return ARENA_END - address;
    if (address >= map && address - map < ARENA_BYTES) return address - map + 1;
    return 0;
}

// Notes a call. False: it is to fail.
bool may(call what, uintptr_t address, size_t bytes, uint64_t detail)
{
    asked[what].count++;
    asked[what].bytes += bytes;
    for (uint64_t value : {uint64_t{what}, place_of(address), uint64_t{bytes}, detail}) add(value);
    bool fails = failure_distance != 0 && --calls_until_failure == 0;
    if (fails) calls_until_failure = failure_distance;
    if (transcript != nullptr)
        fprintf(transcript, "%s %llx %zu %llx%s\n", CALL_NAMES[what], (unsigned long long)place_of(address), bytes,
                (unsigned long long)detail, fails ? " fails" : "");
    return !fails;
}

// Resident pages of a range; 0 if a part of it is not mapped.
size_t resident_pages(uintptr_t at, size_t bytes)
{
    unsigned char pages[SUPERSLAB_BYTES / SYSTEM_PAGE_BYTES];
    if (mincore(reinterpret_cast<void *>(at), bytes, pages) != 0) return 0;
    return std::count_if(pages, pages + bytes / SYSTEM_PAGE_BYTES, [](unsigned char page) { return (page & 1) != 0; });
}

size_t resident_pages()
{
    size_t count = 0;
    for (uintptr_t at = ARENA_END; at > lowest;) {
        at -= SUPERSLAB_BYTES;
        size_t whole = resident_pages(at, SUPERSLAB_BYTES);
        count += whole;
        for (size_t part = 0; whole == 0 && part < SUPERSLAB_BYTES; part += PAGE_BYTES)
            count += resident_pages(at + part, PAGE_BYTES);
    }
    return count;
}

// The rows of golden.txt by their first word, each figure by its name.
using Row = std::map<std::string, std::string>;

Row row_of(const std::string &text)
{
    Row row;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        size_t equals = word.find('=');
        if (equals != std::string::npos) row[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return row;
}

Row recorded(const std::string &key)
{
    std::ifstream file(GOLDEN_FILE);
    for (std::string line; std::getline(file, line);)
        if (line.compare(0, key.size() + 1, key + " ") == 0) return row_of(line);
    return {};
}

std::string figures()
{
    std::ostringstream text;
    for (int i = 0; i < CALLS; i++)
        if (asked[i].count > 0) text << CALL_NAMES[i] << "=" << asked[i].count << ":" << asked[i].bytes << " ";
    if (counts_resident) text << "resident=" << resident_pages() << " ";
    static hak_figures now;
    hak_figures_get(&now, sizeof now);
#define X(name, kind, meaning) \
    if (now.name != 0) text << #name << "=" << now.name << " ";
    HAKMEM_FIGURES(X)
#undef X
    for (size_t i = 0; i < HAKMEM_CLASSES_MAX; i++)
        for (uint64_t value : {now.classes[i].block_bytes, now.classes[i].slab_bytes, now.classes[i].used_blocks,
                               now.class_credits[i], now.class_live_blocks[i], now.class_wasted_bytes[i]})
            add(value);
    hak_inspect_report report;
    if (!hak_inspect(&report)) EXPECT_STREQ(report.broken_law, "law 2: at rest nothing is pending") << report.address;
    for (uint64_t value : {uint64_t{report.slab_count}, uint64_t{report.empty_slab_count}, uint64_t{report.run_count},
                           report.used_blocks, report.live_blocks, report.pending_blocks})
        add(value);
    text << "digest=" << std::hex << digest;
    return text.str();
}

} // namespace

void record(const char *program, const std::function<void()> &body)
{
    utsname machine;
    if (uname(&machine) != 0 || strcmp(machine.machine, "x86_64") != 0) GTEST_SKIP() << "golden.txt is of x86-64";
    if (os_address_space_limit_bytes() != UINT64_MAX) GTEST_SKIP() << "under RLIMIT_AS the page map is another";
    if (os_page_bytes() != SYSTEM_PAGE_BYTES) GTEST_SKIP() << "golden.txt is of a system with pages of 4 KiB";
    EXPECT_TRUE(in_child([&] {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        const char *level = getenv("HAKMEM_FAILFAST_LEVEL");
        program_name = (VALIDATE ? std::string("level-") + (level != nullptr ? level : "") : "release") + "/" + program;
        if (const char *path = getenv("HAKMEM_TEST_TRANSCRIPT")) transcript = fopen(path, "ae");
        now_ms = START_MS;
        is_on = true;
        os_purge_by_advice(true); // as with several threads, which shows what is a purge
        hak_free(hak_malloc(1));
        body();
        fail_each(0);
        if (transcript != nullptr) fclose(transcript);
    }));
}

void leave_out_resident()
{
    counts_resident = false;
}

void fail_each(unsigned nth)
{
    calls_until_failure = failure_distance = nth;
}

void pass_ms(uint64_t ms)
{
    now_ms += ms;
}

const char *some_address(uint64_t number)
{
    return reinterpret_cast<const char *>(lowest + number % (ARENA_END - lowest));
}

void note(uint64_t value)
{
    add(value);
    if (transcript != nullptr) fprintf(transcript, "= %llx\n", (unsigned long long)value);
}

void note(const void *address)
{
    note(place_of(reinterpret_cast<uintptr_t>(address)));
}

void phase(const char *name)
{
    std::string key = program_name + "." + name, now = figures();
    if (transcript != nullptr) fprintf(transcript, "-- %s %s\n", key.c_str(), now.c_str());
    if (const char *path = getenv("HAKMEM_TEST_GOLDEN_WRITE")) {
        std::ofstream(path, std::ios::app) << key << " " << now << "\n";
    } else {
        Row is = row_of(now), was = recorded(key);
        EXPECT_FALSE(was.empty()) << GOLDEN_FILE << " has no row " << key;
        for (const auto &[figure, value] : was) is.try_emplace(figure, "0");
        std::string differ;
        for (const auto &[figure, value] : is)
            if (was.try_emplace(figure, "0").first->second != value)
                differ += key + ": " + figure + " is " + value + ", golden.txt has " + was[figure] + "\n";
        EXPECT_EQ(differ, "")
            << "if that is meant, write the file again, and say in the commit why each figure moved:\n"
               "rm " GOLDEN_FILE " && HAKMEM_TEST_GOLDEN_WRITE=" GOLDEN_FILE
               " ctest --test-dir build/release -R 'unit.*/Golden'";
    }
    for (auto &each : asked) each = {};
}

extern "C" {

// The linker (--wrap) makes these of every call of os/call.h, and of the function itself.
intptr_t __real_call_system(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f);

intptr_t __wrap_call_system(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    auto call = [&](intptr_t place, intptr_t flags) { return __real_call_system(number, place, b, c, flags, e, f); };
    auto fails = [&](enum call what, size_t bytes, uint64_t detail) {
        return is_on && !may(what, static_cast<uintptr_t>(a), bytes, detail);
    };
    const auto start = static_cast<uintptr_t>(a);
    const auto bytes = static_cast<size_t>(b);
    switch (number) {
    case SYS_mmap:
        if (fails(CALL_mmap, bytes, static_cast<uint64_t>(c) << 32 | static_cast<uint64_t>(d))) return -ENOMEM;
        // A place that the caller would like. Outside of the arena is the page map, whose places are free.
        if (is_on && start - (ARENA_END - ARENA_BYTES) < ARENA_BYTES && (d & MAP_FIXED) == 0) {
            if (start + bytes <= lowest) lowest = start;
            else a = 0; // the system would choose another, at random
        }
        if (!is_on || a != 0) return call(a, d);
        if (bytes > lowest - (ARENA_END - ARENA_BYTES)) return -ENOMEM;
        lowest = (lowest - bytes) & ~uintptr_t{4095};
        return call(static_cast<intptr_t>(lowest), d | MAP_FIXED_NOREPLACE);
    case SYS_munmap:
        if (fails(CALL_munmap, bytes, 0)) return -ENOMEM;
        if (is_on && start == lowest) lowest += bytes;
        break;
    case SYS_mprotect:
        if (fails(CALL_mprotect, bytes, static_cast<uint64_t>(c))) return -ENOMEM;
        break;
    case SYS_madvise:
        if (fails(CALL_madvise, bytes, static_cast<uint64_t>(c))) return -ENOMEM;
        if (is_on && (c == MADV_HUGEPAGE || c == MADV_COLLAPSE_HERE)) return 0; // not every kernel has them
        break;
    case SYS_mremap:
        if (fails(CALL_mremap, static_cast<size_t>(c),
                  place_of(static_cast<uintptr_t>(e)) << 3 | static_cast<uint64_t>(d)))
            return -ENOMEM;
        break;
    default: break;
    }
    return call(a, d);
}

// The same of the clock.
void __real_clock_read(clockid_t clock, struct timespec *now);

void __wrap_clock_read(clockid_t clock, struct timespec *now)
{
    if (!is_on || clock != CLOCK_MONOTONIC_COARSE) return __real_clock_read(clock, now);
    *now = {static_cast<time_t>(now_ms / 1000), static_cast<long>(now_ms % 1000) * 1'000'000};
}

} // extern "C"

} // namespace test::golden
