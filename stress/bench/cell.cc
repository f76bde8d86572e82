// A cell of the surface: one pattern of malloc and free at one size, by some threads, for a fraction of a second.
#include "bench/cell.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <barrier>
#include <csignal>
#include <new>
#include <span>

#include "bench/cell_worker.h"
#include "bench/status.h"
#include "bench/team.h"

namespace bench {
namespace {

constexpr std::size_t kKib = 1024, kMib = 1024 * kKib;
constexpr std::size_t kSizes[] = {1,         16,          64,         128,        256,        640,
                                  kKib,      2 * kKib,    4 * kKib,   8 * kKib,   16 * kKib,  33 * kKib,
                                  64 * kKib, 100 * kKib,  150 * kKib, 300 * kKib, 700 * kKib, 850 * kKib,
                                  kMib,      1400 * kKib, 2 * kMib,   3 * kMib,   8 * kMib,   64 * kMib};
constexpr std::size_t kQuickSizes[] = {64, 4 * kKib, 300 * kKib, 3 * kMib};
constexpr std::size_t kMost = 64 * kMib; // size
constexpr std::size_t kBytesMost = 512 * kMib, kTouchedMost = 128 * kMib; // of all live blocks
constexpr std::uint64_t kTicksMost = 200, kResidentMost = kMib; // of a tenth of a second; KiB
constexpr std::size_t kDataMore = 64 * kMib; // RLIMIT_DATA of the pattern `limit`

enum class Before : std::uint8_t { kNothing, kWarmUp, kFill };

struct Pattern {
    const char *name, *purpose;
    void (*go)(Worker &worker, std::uint64_t pairs);
    std::vector<std::uint32_t> threads{1, 2, 8};
    Before before = Before::kFill;
    std::uint64_t live = kLiveMost, live_least = 4; // of all threads; of one
    std::uint64_t rounds_least = 1, rounds_most = UINT64_MAX; // in each a thread allocates its live set once
    std::size_t low = 1, high = kMost;
    double page_ns = 0; // that a pair takes for each page of the block
    Calls calls{};
    bool at_limit = false;
};

// clang-format off
const std::vector<Pattern> &patterns()
{
    using B = Before;
    constexpr std::uint64_t kLive = kLiveMost, kAny = UINT64_MAX;
    static const std::vector<std::uint32_t> kAll = {1, 2, 8}, kOne = {1}, kTwo = {2, 8}, kNine = {9};
    static const std::vector<Pattern> kPatterns = {
        // live blocks of all threads, least of one; rounds, least and most; size, least and most; ns a page
        {"tight", "one block, freed at once", tight, kAll, B::kWarmUp, 1, 1, 8},
        {"lifo", "all blocks, freed backwards", batch<Order::kBackwards>, kAll, B::kWarmUp, kLive, 4, 2},
        {"fifo", "all blocks, freed in order", batch<Order::kForwards>, kAll, B::kWarmUp, kLive, 4, 2},
        {"random-free", "all blocks, freed at random", batch<Order::kRandom>, kAll, B::kWarmUp, kLive, 4, 2},
        {"queue", "the oldest block is replaced", queue},
        {"replace", "a random block is replaced", replace},
        {"varying", "the same, of half the size to the size", replace, kAll, B::kFill, kLive, 4, 1, kAny, 16, kMost, 0,
         {.varying = true}},
        {"touched", "the same, each page written", replace, kAll, B::kFill, kLive, 4, 1, kAny, 8 * kKib, kMost, 250,
         {.touched = true}},
        {"calloc", "the same, by calloc", replace, kAll, B::kFill, kLive, 2, 1, kAny, 1, kMost, 100,
         {How::kCalloc}},
        {"aligned", "the same, aligned to 4 KiB", replace, kAll, B::kFill, kLive, 4, 1, kAny, 1, kMost, 0,
         {How::kAligned, 4 * kKib}},
        {"aligned-1m", "the same, aligned to 1 MiB", replace, kAll, B::kFill, 200, 4, 1, 20, 1, 8 * kMib, 0,
         {How::kAligned, kMib}},
        {"realloc-up", "a block grows in 8 steps", resize<true>, kAll, B::kWarmUp, 1, 1, 8, kAny, 64, kMost, 150},
        {"realloc-down", "a block shrinks in 8 steps", resize<false>, kAll, B::kWarmUp, 1, 1, 8, kAny, 64, kMost, 150},
        {"remote", "half of the threads free what the others take", pass<Sides::kHalves>, kTwo, B::kWarmUp, 1024, 1, 4},
        {"one-to-many", "8 threads free what one allocates", pass<Sides::kOneToMany>, kNine, B::kWarmUp, 1024, 1, 4},
        {"many-to-one", "one thread frees what 8 allocate", pass<Sides::kManyToOne>, kNine, B::kWarmUp, 1024, 1, 4},
        {"requests", "a thread for each request, with 64 blocks", requests<false>, kAll, B::kNothing, 64, 4, 4, 300},
        {"hand-over", "the same, the next thread frees them", requests<true>, kAll, B::kFill, 64, 4, 4, 300},
        {"fork", "a process for each request, which replaces 64 blocks", forks, kOne, B::kFill, 4096, 4, 0, 1},
        {"bursts", "all blocks, freed at random, 1.1 s of pause, again", bursts, kOne, B::kNothing, kLive, 4, 2, 2},
        {"phases", "all blocks, freed in order, of 8 sizes in turn", phases<0>, kAll, B::kNothing, 4096, 4, 8, 8},
        {"survivors", "the same, each 16th stays to the end", phases<16>, kAll, B::kNothing, 4096, 16, 8, 8, 16},
        {"late", "a thread for each request, blocks in its last destructors", late, kAll, B::kNothing, 64, 4, 4, 300},
        {"limit", "malloc returns NULL at RLIMIT_DATA, a random block is freed", evict, kOne, B::kFill, kLive, 4, 1, 1,
         kKib, 8 * kMib, 0, {}, true},
    };
    return kPatterns;
}
// clang-format on

const Pattern *find(const std::string &name)
{
    const auto found = std::ranges::find_if(patterns(), [&](const Pattern &each) { return name == each.name; });
    return found == patterns().end() ? nullptr : &*found;
}

std::uint64_t live_of(const Pattern &pattern, const CellPlan &plan)
{
    const std::size_t most = pattern.page_ns > 0 ? kTouchedMost : kBytesMost;
    return std::min<std::uint64_t>(std::max<std::uint64_t>(pattern.live / plan.threads, 1),
                                   most / plan.size / plan.threads);
}

// By a rough cost of a pair, so that every malloc does the same number in a similar time.
std::uint64_t pairs_of(const Pattern &pattern, const CellPlan &plan, std::uint64_t live)
{
    const double bytes = static_cast<double>(plan.size);
    const double cost = 40 + std::min(bytes, 32768.0) / 16 + (bytes > 32768 ? 2000 : 0) + (bytes > 2097152 ? 4000 : 0) +
                        pattern.page_ns * bytes / 4096;
    const std::uint64_t round = live * plan.threads;
    const std::uint64_t most = pattern.rounds_most == UINT64_MAX ? UINT64_MAX : round * pattern.rounds_most;
    const std::uint64_t by_cost =
        std::clamp<std::uint64_t>(static_cast<std::uint64_t>(plan.span_ms * 1e6 / cost), 8, 200000);
    return std::clamp(by_cost, std::min(round * pattern.rounds_least, most), most);
}

// The limit is above what the process has now. The process may lift it again.
void set_limit(bool on)
{
    rlimit limit{};
    getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = on ? (status_kib("VmData") << 10) + kDataMore : limit.rlim_max;
    if (setrlimit(RLIMIT_DATA, &limit) != 0) die("setrlimit of RLIMIT_DATA failed");
}

void tick(int /*signal*/)
{
    static std::uint64_t ticks;
    if (++ticks == kTicksMost) die("the cell did not end in 20 s");
    if (status_kib("VmRSS") > kResidentMost) die("the cell took more than 1 GiB of memory");
}

// Ends the program before it takes the machine's time and memory. A thread for this would change what mallocs do.
void watch()
{
    struct sigaction action{};
    action.sa_handler = tick;
    action.sa_flags = SA_RESTART;
    const itimerval each{{0, 100000}, {0, 100000}};
    if (sigaction(SIGALRM, &action, nullptr) != 0 || setitimer(ITIMER_REAL, &each, nullptr) != 0) die("no timer");
}

void work(const Pattern &pattern, Worker &worker, Seat &seat, std::uint64_t pairs, std::barrier<> &all_done)
{
    if (pattern.before == Before::kFill) worker.fill();
    if (pattern.before == Before::kWarmUp) pattern.go(worker, std::max(worker.live * worker.threads, pairs / 10));
    worker.begin();
    seat.start();
    pattern.go(worker, pairs);
    seat.finish();
    if (pattern.before != Before::kFill) return;
    all_done.arrive_and_wait(); // else a thread that is done early gives megabytes back in the time of the others
    for (std::uint64_t i = 0; i < worker.live; ++i) worker.give(worker.slots[i]);
}

} // namespace

std::string cells_text()
{
    std::string text = "\nPatterns, for hakmem-bench cell:\n";
    for (const Pattern &pattern : patterns()) text += fmt::format("{:21} {}\n", pattern.name, pattern.purpose);
    return text;
}

// The quick form has the fewest threads of each pattern, and no pauses.
std::vector<std::uint32_t> quick_threads(const Pattern &pattern)
{
    return pattern.go == bursts ? std::vector<std::uint32_t>() : std::vector<std::uint32_t>{pattern.threads.front()};
}

std::vector<CellPlan> cells(bool quick)
{
    std::vector<CellPlan> found;
    for (const Pattern &pattern : patterns())
        for (const std::uint32_t threads : quick ? quick_threads(pattern) : pattern.threads)
            for (const std::size_t size : quick ? std::span<const std::size_t>(kQuickSizes) : kSizes)
                if (const CellPlan plan{pattern.name, size, threads}; cell_refusal(plan).empty()) found.push_back(plan);
    return found;
}

std::string cell_refusal(const CellPlan &plan)
{
    const Pattern *const pattern = find(plan.pattern);
    if (pattern == nullptr) return "there is no pattern '" + plan.pattern + "'; see hakmem-bench list";
    if (plan.size < pattern->low || plan.size > pattern->high)
        return fmt::format("--size: {} is of {} to {} bytes, not {}", plan.pattern, pattern->low, pattern->high,
                           plan.size);
    if (std::ranges::find(pattern->threads, plan.threads) == pattern->threads.end())
        return fmt::format("--threads: {} has {}, not {}", plan.pattern, fmt::join(pattern->threads, ", "),
                           plan.threads);
    if (live_of(*pattern, plan) < pattern->live_least)
        return fmt::format("{} blocks of {} bytes for each of {} threads are too much memory", pattern->live_least,
                           plan.size, plan.threads);
    return "";
}

CellFigures cell_run(const CellPlan &plan)
{
    const Pattern &pattern = *find(plan.pattern);
    // Shared, because the processes of `fork` note their worst calls in it too.
    void *const place =
        mmap(nullptr, kWorkersMost * sizeof(Worker), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) die("no memory for the workers");
    Worker *const workers = static_cast<Worker *>(place);
    const std::uint64_t live = live_of(pattern, plan);
    for (std::uint32_t i = 0; i < plan.threads; ++i) {
        Worker *const worker = new (&workers[i]) Worker(i, plan.threads, plan.size, live, pattern.calls);
        worker->timed = plan.calls;
        worker->may_fail = pattern.at_limit;
        if (pattern.at_limit) worker->live = kSlots;
    }
    watch();
    if (pattern.at_limit) set_limit(true);
    CellFigures figures{.pairs = pairs_of(pattern, plan, live)};
    std::barrier<> all_done(plan.threads);
    figures.seconds =
        Team(plan.threads).run([&](Seat &seat) { work(pattern, workers[seat.index], seat, figures.pairs, all_done); });
    if (pattern.at_limit) set_limit(false);
    std::uint64_t paused_ns = 0;
    for (const Worker &worker : std::span(workers, plan.threads)) {
        figures.nulls += worker.nulls;
        figures.worst_malloc_ns = std::max(figures.worst_malloc_ns, worker.worst_malloc_ns);
        figures.worst_free_ns = std::max(figures.worst_free_ns, worker.worst_free_ns);
        paused_ns = std::max(paused_ns, worker.paused_ns);
    }
    figures.seconds -= static_cast<double>(paused_ns) / 1e9;
    return figures;
}

} // namespace bench
