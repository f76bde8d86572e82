#include "order/contention/run.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "order/run/pages.h"
#include "order/run/seats.h"

namespace stress::order {
namespace {

constexpr std::size_t kTextMax = 1 << 14;
constexpr unsigned kSecondsMax = 900;
constexpr std::size_t kPlaces = 16;

struct Shared {
    bool has_ended;
    Contention counts;
    char failure[kTextMax], places[kTextMax];
};

void copy(char (&to)[kTextMax], const std::string &text)
{
    const std::size_t length = std::min(text.size(), kTextMax - 1);
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
}

// Names are made of <0x...>, one a line (report_with_names).
std::string place_text(std::uintptr_t place, const char *without)
{
    return place <= 1 ? std::string(without) : fmt::format("<{:#x}>", place);
}

std::string busiest(const Counted &machine)
{
    std::vector<std::pair<Counted::Places::key_type, Traffic>> places(machine.places().begin(), machine.places().end());
    std::sort(places.begin(), places.end(), [](const auto &a, const auto &b) {
        return std::pair(b.second.transfers(), a.first) < std::pair(a.second.transfers(), b.first);
    });
    const auto operations = static_cast<double>(std::max<std::uint64_t>(machine.total().operations, 1));
    std::string text;
    for (std::size_t i = 0; i < std::min(places.size(), kPlaces); ++i) {
        const auto &[place, traffic] = places[i];
        text += fmt::format("  {:8.4f} {:8.4f}  {}\n                     <- {}\n",
                            static_cast<double>(traffic.transfers()) / operations,
                            static_cast<double>(traffic.false_sharing) / operations,
                            place_text(place.first, "a mutex of libc"), place_text(place.second, "the program"));
    }
    return text;
}

// A subject may ask which processor it runs on, so each run has the same one.
void pin_to_first()
{
    cpu_set_t allowed, first;
    CPU_ZERO(&first);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    unsigned cpu = 0;
    while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &allowed)) cpu++;
    CPU_SET(cpu, &first);
    sched_setaffinity(0, sizeof first, &first);
}

[[noreturn]] void run_child(Shared &shared, const Subject &subject, const OwnHeaps &heaps, const Pattern &pattern,
                            const CountedRun &run)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    pin_to_first();
    alarm(kSecondsMax);
    pages_now->is_active = true;
    subject.free(subject.malloc(64));
    pages_now->is_active = false;
    Seats seats(run.threads, subject.thread_local_variables);
    Counted machine(seats, run.threads, run.seed);
    Work work(machine, subject, heaps, run.threads, run.seed, run.warm);
    const std::string failure =
        machine.run(pattern.has_generations ? work.generations() : 1, [&](unsigned self, unsigned generation) {
            if (subject.begin_thread != nullptr) subject.begin_thread();
            pattern.thread(work, self, generation);
            if (subject.end_thread != nullptr) subject.end_thread();
        });
    shared.counts = machine.total();
    copy(shared.failure, failure);
    copy(shared.places, busiest(machine));
    shared.has_ended = true;
    _exit(0);
}

} // namespace

ContentionResult count_contention(const Subject &subject, const OwnHeaps &heaps, const Pattern &pattern,
                                  const CountedRun &run)
{
    void *start = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return {{}, "no memory for the result", {}};
    Shared &shared = *static_cast<Shared *>(start);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) run_child(shared, subject, heaps, pattern, run);
    int status = 0;
    if (child < 0) return {{}, "the system refuses a process (fork)", {}};
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    ContentionResult result;
    if (shared.has_ended) result = {shared.counts, shared.failure, shared.places};
    else
        result.failure = WIFSIGNALED(status) ? fmt::format("the subject died of signal {} ({})", WTERMSIG(status),
                                                           strsignal(WTERMSIG(status)))
                                             : fmt::format("its process ended with status {:#x}", status);
    munmap(start, sizeof(Shared));
    return result;
}

} // namespace stress::order
