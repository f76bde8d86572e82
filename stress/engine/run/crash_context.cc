#include "engine/run/crash_context.h"

#include <dlfcn.h>
#include <hakmem/crash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/seat/seat_report.h"

namespace stress {
namespace {

constexpr std::size_t kSeatsMax = 64;
constexpr std::uint64_t kOpsMin = 8, kOpsMax = 256;  // ops of each seat: its ring is sure to hold this many
constexpr std::size_t kLineBytes = 48;               // as a rule

// The subject's record points into this. It is prepared before the run, because the handler may use neither stdio nor
// the heap.
struct Told {
    std::uint64_t seed = 0;
    std::string reproduce;
    const Mapped<Seat *> *seats = nullptr;
};
Told told;
struct hak_crash_facts context{};

template <typename Function> Function *symbol(const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

// Looked up before main, and only once. For a missing name dlsym allocates a message, and a run must make the same
// calls to the subject whether or not another run came before it in the process.
const struct {
    void (*context)(const struct hak_crash_facts *) = symbol<void(const struct hak_crash_facts *)>("hak_crash_context");
    int (*install)(const char *) = symbol<int(const char *)>("hak_crash_handler_install");
    void (*remove)() = symbol<void()>("hak_crash_handler_remove");
} subject_crash;

void tell(const struct hak_crash_facts *what)
{
    if (subject_crash.context != nullptr) subject_crash.context(what);
}

std::size_t write_operations(char *buffer, std::size_t room)
{
    std::size_t used = 0;
    const std::size_t seats = std::min(told.seats->size(), kSeatsMax);
    const std::uint64_t ops = std::clamp<std::uint64_t>(room / (seats + 1) / kLineBytes, kOpsMin, kOpsMax);
    for (std::size_t i = 0; i < seats; ++i) {
        seat_report_lines(*(*told.seats)[i], ops, [&](SafeText &text) {
            const std::size_t length = std::min(text.size(), room - used);
            std::memcpy(buffer + used, text.c_str(), length);
            used += length;
        });
    }
    return used;
}

}  // namespace

void crash_context_begin(std::uint64_t seed, const std::string &reproduce, const Mapped<Seat *> &seats)
{
    told = {seed, reproduce, &seats};
    context = {&told.seed, nullptr, nullptr, write_operations, told.reproduce.c_str()};
    tell(&context);
}

void crash_context_schedule(const std::uint64_t *clock, const std::uint64_t *hash)
{
    if (told.seats == nullptr) return;
    context.clock = clock;
    context.schedule_hash = hash;
    tell(&context);
}

void crash_context_end()
{
    tell(nullptr);
    told.seats = nullptr;
}

bool crash_handler_lift()
{
    const char *directory = std::getenv("HAKMEM_CRASH_DIR");
    if (directory == nullptr || *directory == '\0' || subject_crash.remove == nullptr) return false;
    subject_crash.remove();
    return true;
}

void crash_handler_put_back()
{
    if (subject_crash.install != nullptr) subject_crash.install(std::getenv("HAKMEM_CRASH_DIR"));
}

}  // namespace stress
