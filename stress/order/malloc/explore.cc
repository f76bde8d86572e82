#include "order/malloc/explore.h"

#include <fmt/format.h>
#include <sched.h>
#include <csignal>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <unordered_set>

#include "order/malloc/report.h"
#include "order/run/pages.h"
#include "order/run/seats.h"

namespace stress::order {
namespace {

constexpr std::size_t kTextMax = 1 << 18;
constexpr char kOutside[] = ", outside the subject's code";
constexpr unsigned kSecondsMax = 20; // of processor time for a run
constexpr unsigned kReportSecondsMax = 2; // for a report: a broken list in libc's heap may have no end
constexpr unsigned kWallSecondsMax = 600; // for one that waits for what is no part of the run
// Behind a failure: looks at the process, a second apart, in which it has done next to nothing.
constexpr unsigned kIdleLooksMax = 1;
constexpr std::clock_t kIdleWork = CLOCKS_PER_SEC / 1000;
// Random runs that only find what is shared. They are the same for each seed, so that a seed repeats by itself.
constexpr std::uint64_t kFirstRuns = 16;
// Runs in which more memory was shared than was known. With more than this its addresses come from outside the runs.
constexpr unsigned kOutgrownMax = 20000;

// What the process of the runs tells the explorer.
struct Shared {
    bool has_ended; // there is a text, perhaps to be replaced by a longer one
    ExploreNumbers numbers;
    char text[kTextMax];
};

Shared *shared = nullptr;

void limit_processor_time(unsigned seconds)
{
    const itimerval limit = {{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
}

// What a signal says, written before any comes.
std::string texts[NSIG];
volatile std::sig_atomic_t is_in_signal = 0;

[[noreturn]] void leave(const ExploreResult &result)
{
    const std::size_t length = std::min(result.failure.size(), kTextMax - 1);
    std::memcpy(shared->text, result.failure.data(), length);
    shared->text[length] = '\0';
    shared->numbers = result;
    shared->has_ended = true;
    _exit(0);
}

// Whether the process works on its report. One that waits never ends: for a lock of libc's malloc, say.
bool is_working()
{
    static std::clock_t last = 0;
    static unsigned idle = 0;
    const std::clock_t now = std::clock();
    idle = now - last < kIdleWork ? idle + 1 : 0;
    last = now;
    alarm(1);
    return idle <= kIdleLooksMax;
}

// The signal may have come inside libc's malloc, with its heap broken and its locks taken. So the short text is left
// first, without either. Then a report is tried. A second failure in it, or a wait, ends the process, and the short text stays.
void on_signal(int number)
{
    if (shared->has_ended && number == SIGALRM && is_working()) return;
    Machine *machine = Machine::current();
    if (shared->has_ended && (number == SIGALRM || is_in_signal != 0 || machine == nullptr)) _exit(0);
    is_in_signal = 1;
    const std::string &text = texts[number];
    std::memcpy(shared->text, text.c_str(), text.size() + 1);
    shared->has_ended = true;
    // The run is over. Leaves the thread where it is.
    limit_processor_time(kReportSecondsMax);
    alarm(1);
    if (machine != nullptr) machine->fail(text);
    std::memcpy(shared->text + text.size(), kOutside, sizeof kOutside);
    _exit(0);
}

void prepare_process()
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); // nothing stays behind of an explorer that is killed
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // a run that touches a few pages shall not pay for 2 MiB
    cpu_set_t one; // a subject may ask which processor it runs on
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(std::max(sched_getcpu(), 0)), &one);
    sched_setaffinity(0, sizeof one, &one);
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_NODEFER; // it may not return
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGPROF, SIGALRM}) {
        texts[number] =
            number == SIGPROF   ? fmt::format("a thread does not end: {} s of processor time are up", kSecondsMax)
            : number == SIGALRM ? fmt::format("the run has not ended in {} s: it waits in a call that hakmem-order "
                                              "does not know",
                                              kWallSecondsMax)
                                : fmt::format("the subject died of signal {} ({})", number, strsignal(number));
        sigaction(number, &action, nullptr);
    }
}

class Worker {
  public:
    explicit Worker(const ExploreRequest &request)
        : request_(request), seats_(request.threads, request.subject->thread_local_variables),
          machine_(seats_, request.rules)
    {
        for (const auto &[start, bytes] : request.subject->variables) pages_now->add(start, bytes);
        pages_now->take();
        keys().take();
        machine_.limit_points(request.points_max);
        if (request.ignores_races) machine_.ignore_races();
        if (request.stops_at_stores) machine_.stop_at_stores();
        if (request.is_reduced) machine_.reduce_to(sharing_);
    }

    // Until nothing that the runs leave behind is unknown.
    ExploreResult work()
    {
        for (;;) {
            result_ = {};
            ends_.clear();
            is_polluted_ = false;
            points_made_ = 0;
            const bool is_done = request_.is_search ? search() : draw();
            if (is_done) return finish();
        }
    }

  private:
    Machine::Result run(Chooser &chooser);
    bool check();
    bool warm_up(bool &has_failed);
    bool search();
    bool draw();
    std::unique_ptr<Chooser> chooser(std::uint64_t seed) const;
    void count(const Machine::Result &last);
    bool fails(const Machine::Result &last, const std::vector<unsigned> &chosen);
    bool is_time_up() const { return request_.seconds > 0 && passed() > request_.seconds; }
    bool has_enough(std::uint64_t share) const
    {
        return request_.points_enough != 0 && points_made_ >= request_.points_enough / share;
    }
    double passed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
    ExploreResult finish()
    {
        result_.seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
        result_.shared = sharing_.known();
        result_.ends = ends_.size();
        for (const std::uint64_t end : ends_) result_.ends_digest ^= end;
        return result_;
    }

    const ExploreRequest &request_;
    Seats seats_;
    Machine machine_;
    Sharing sharing_;
    StepCounts counts_;
    std::unordered_set<std::uint64_t> ends_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    ExploreResult result_;
    std::uint64_t runs_ = 0, points_ = 1, points_made_ = 0;
    unsigned outgrown_ = 0;
    bool is_polluted_ = false; // a run has left something behind
};

Machine::Result Worker::run(Chooser &chooser)
{
    if (!shared->has_ended) {
        limit_processor_time(kSecondsMax);
        shared->numbers = result_;
        alarm(kWallSecondsMax);
    }
    if (request_.before_run != nullptr) request_.before_run();
    Blocks blocks(*request_.subject);
    auto last = machine_.run(
        request_.threads,
        [&](unsigned thread) {
            if (request_.subject->begin_thread != nullptr) request_.subject->begin_thread();
            if (const order_scenario *inside = request_.scenario->inside) inside->thread(thread);
            else request_.scenario->thread(blocks, thread, request_.threads);
            if (request_.subject->end_thread != nullptr) request_.subject->end_thread();
        },
        chooser);
    is_in_signal = 0;
    points_made_ += last.points;
    const bool is_whole =
        !last.is_pruned && !last.has_outgrown && !last.is_given_up && last.failure.empty() && !last.race;
    if (is_whole && request_.scenario->inside != nullptr && request_.scenario->inside->law != nullptr)
        if (const char *wrong = request_.scenario->inside->law()) last.failure = wrong;
    if (request_.keeps_ends && is_whole) ends_.insert(pages_now->digest());
    pages_now->restore();
    keys().restore();
    if (last.has_outgrown && ++outgrown_ > kOutgrownMax) {
        result_.failure = "runs do not repeat: each shares other memory than those before";
        leave(finish());
    }
    return last;
}

// Now and then: whether the state came back.
bool Worker::check()
{
    const std::uint64_t runs = ++runs_;
    if ((runs & (runs - 1)) == 0 && !pages_now->is_restored()) is_polluted_ = true;
    if (is_polluted_) pages_now->restore();
    return !is_polluted_;
}

void Worker::count(const Machine::Result &last)
{
    result_.schedules++;
    result_.points = std::max(result_.points, last.points);
    result_.given_up += last.is_given_up;
    result_.pruned += last.is_pruned;
}

// Whether the run failed. Then it is made again, with all that the report needs.
bool Worker::fails(const Machine::Result &last, const std::vector<unsigned> &chosen)
{
    if (!last.race && last.failure.empty()) return false;
    Replay replay(chosen);
    machine_.keep_steps(true);
    const auto again = run(replay);
    machine_.keep_steps(false);
    result_.failure = again.race || !again.failure.empty()
                          ? report_run(machine_, again)
                          : "a failure did not repeat, so the subject depends on something that is no choice here: " +
                                report_run(machine_, last);
    return true;
}

// Every schedule within the bounds. False: begin again, more is shared or came back wrong.
bool Worker::search()
{
    bool has_failed = false;
    if (!warm_up(has_failed)) return false;
    Search search(request_.bounds, request_.is_reduced);
    do {
        const auto last = run(search);
        if (!check() || last.has_outgrown) return false;
        count(last);
        result_.states = search.states();
        if (search.has_diverged()) {
            result_.failure = "runs do not repeat: the subject depends on something that is no choice here";
            return true;
        }
        if (fails(last, search.chosen()) || is_time_up()) return true;
    } while (search.next());
    result_.is_complete = result_.given_up == 0;
    return true;
}

std::unique_ptr<Chooser> Worker::chooser(std::uint64_t seed) const
{
    constexpr Strategy kMixed[] = {Strategy::uniform, Strategy::pct, Strategy::pos, Strategy::surw};
    switch (request_.strategy == Strategy::mixed ? kMixed[seed % 4] : request_.strategy) {
    case Strategy::pct:
        return std::make_unique<Pct>(request_.bounds, seed, 2 + static_cast<unsigned>(seed / 4 % 3), points_);
    case Strategy::pos: return std::make_unique<Pos>(request_.bounds, seed);
    case Strategy::surw: return std::make_unique<Surw>(request_.bounds, seed, counts_);
    default: return std::make_unique<Uniform>(request_.bounds, seed);
    }
}

// Finds most of what is shared. A failure counts, if it comes from random schedules.
bool Worker::warm_up(bool &has_failed)
{
    for (std::uint64_t i = 0; i < kFirstRuns; ++i) {
        Uniform first(request_.bounds, i);
        const auto last = run(first);
        if (!check()) return false;
        if (last.has_outgrown) --i; // again
        else if (!request_.is_search && fails(last, first.chosen())) {
            result_.seed = request_.seed;
            has_failed = true;
            break;
        }
        if (has_enough(2)) break; // the other half is for what comes behind
    }
    return true;
}

bool Worker::draw()
{
    bool has_failed = false;
    if (!warm_up(has_failed)) return false;
    if (has_failed) return true;
    for (;;) {
        Replay plain({});
        const auto last = run(plain);
        if (!check()) return false;
        if (last.has_outgrown) continue;
        count(last);
        counts_ = plain.counts();
        points_ = std::max<std::uint64_t>(last.points, 1);
        if (fails(last, plain.chosen())) return true;
        break;
    }
    const std::size_t known = sharing_.known();
    for (std::uint64_t i = 0; i < request_.schedules && !is_time_up() && !has_enough(1); ++i) {
        result_.seed = request_.seed + i;
        sharing_.keep_first(known);
        for (;;) {
            const auto chosen = chooser(result_.seed);
            const auto last = run(*chosen);
            if (!check()) return false;
            if (last.has_outgrown) continue;
            count(last);
            if (fails(last, chosen->chosen())) return true;
            break;
        }
    }
    return true;
}

[[noreturn]] void run_child(const ExploreRequest &request)
{
    prepare_process();
    pages_now->is_active = true;
    if (!request.scenario->is_first && request.scenario->inside == nullptr)
        request.subject->free(request.subject->malloc(64));
    if (request.scenario->inside != nullptr && request.scenario->inside->begin != nullptr)
        request.scenario->inside->begin();
    pages_now->is_active = false;
    Worker worker(request);
    leave(worker.work());
}

ExploreResult failed(std::string text)
{
    ExploreResult result;
    result.failure = std::move(text);
    return result;
}

ExploreResult refused(std::string text)
{
    ExploreResult result;
    result.refused = std::move(text);
    return result;
}

} // namespace

ExploreResult explore(const ExploreRequest &request)
{
    if (shared == nullptr) {
        void *start =
            mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) return refused("the system refuses memory (mmap): free some");
        shared = static_cast<Shared *>(start);
    }
    shared->has_ended = false;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return refused("the system refuses a process (fork): free some memory or processes");
    if (child == 0) run_child(request);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (!shared->has_ended) return failed(fmt::format("the process of the runs ended: status {:#x}", status));
    ExploreResult result;
    static_cast<ExploreNumbers &>(result) = shared->numbers;
    result.failure = shared->text;
    return result;
}

} // namespace stress::order
