// A thread that stops between two instructions of malloc, free or realloc, while another one frees, allocates and keeps
// blocks of the same size. The processor stops it: a trap after each instruction, of which one holds. About twenty stops of
// each step are spread over its instructions, and each trap is a pause of a thousand instructions for the others. Traps begin
// kLead calls before a stop, since one takes microseconds: in all calls they took two thirds of the check's processor time.
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <iterator>
#include <utility>

#include "conform/check.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

#if defined(__x86_64__)
constexpr greg_t kTrapFlag = 0x100; // Intel SDM 3A 2.3: a debug exception after each instruction

// The stack is moved first: the caller may use the 128 bytes below it.
[[gnu::noinline]] void traps_begin()
{
    asm volatile("lea -128(%%rsp), %%rsp; pushfq; orq %0, (%%rsp); popfq; lea 128(%%rsp), %%rsp"
                 :
                 : "i"(kTrapFlag)
                 : "memory", "cc");
}

[[gnu::noinline]] void traps_end()
{
    asm volatile("lea -128(%%rsp), %%rsp; pushfq; andq %0, (%%rsp); popfq; lea 128(%%rsp), %%rsp"
                 :
                 : "i"(~kTrapFlag)
                 : "memory", "cc");
}

void traps_end_after(void *context)
{
    static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
}
#else
void traps_begin() {}
void traps_end() {}
void traps_end_after(void *) {}
#endif

constexpr std::size_t kSize = 48, kGrown = 200, kStepped = 72, kTaken = 96, kKept = 64;
constexpr std::size_t kLead = 8;
constexpr int kRounds = 100;
constexpr double kPatience = 0.005; // the other thread may need a lock that the stopped one holds
constexpr int kMetLeast = 10; // stops during which the other thread did its part
constexpr long kTrapsMax = 200'000; // of a step
constexpr char kTooFew[] = "too few stops";
constexpr char kTooLong[] = "a step has no end";

// What the thread that stops does with kStepped blocks.
enum class Step { take, give_back, give_back_others, resize };
constexpr Step kSteps[] = {Step::take, Step::give_back, Step::give_back_others, Step::resize};

struct Meeting {
    const Subject *subject = nullptr;
    // Rounds. One thread: ready, done. The one that stops: stopped (or its step is over), finished.
    std::atomic<int> ready{0}, stopped{0}, done{0}, finished{0};
    std::atomic<const char *> wrong{nullptr};
    unsigned char *others[kStepped] = {}; // blocks that the other thread made for this round
    long traps = 0, stop_at = 0; // of the round
    int met = 0; // stops during which the other thread did its part
};
Meeting meeting;

// As wait_until, but it ends too when something is wrong.
void await(const std::atomic<int> &value, int wanted)
{
    for (Pause pause; value.load() < wanted && meeting.wrong.load() == nullptr;) pause();
}

const char *changed(const void *block)
{
    return wrong_text("the live block %p changed, while another thread was stopped between two instructions of malloc, "
                      "free or realloc",
                      block);
}

template <std::size_t Count> const char *take_all(unsigned char *(&blocks)[Count], unsigned char seed)
{
    for (auto &block : blocks) {
        block = bytes_of(launder(meeting.subject->malloc(kSize)));
        if (block == nullptr) return wrong_text("malloc(%zu) gave NULL, errno %s", kSize, errno_text(errno));
        fill(block, kSize, seed);
    }
    for (auto *block : blocks)
        if (!filled(block, kSize, seed)) return changed(block);
    return nullptr;
}

// A malloc whose critical sections begin again after each signal (rseq) would never end a step.
void on_trap(int, siginfo_t *info, void *context)
{
    // Of the malloc itself are an int3 (SI_KERNEL) and a signal that was sent. The processor's other traps are the steps; some
    // virtual machines lose what kind they are, or deliver one of another process's watchpoints.
    if (info->si_code <= 0 || info->si_code == SI_KERNEL)
        meeting.wrong = wrong_text("SIGTRAP in malloc, free or realloc (si_code %d)", info->si_code);
    else if (++meeting.traps > kTrapsMax) meeting.wrong = kTooLong;
    if (meeting.wrong.load() != nullptr) return traps_end_after(context);
    if (meeting.traps < meeting.stop_at) return;
    traps_end_after(context);
    const int error = errno, round = meeting.finished.load() + 1;
    meeting.stopped = round;
    meeting.met += wait_at_most(meeting.done, round, kPatience);
    errno = error;
}

using Instructions = std::array<long, kStepped + 1>; // of the first calls of a step, from none to all

// Stops after `stop_at` instructions, if the step has as many, of which `known` says where its calls began when they were
// last counted; LONG_MAX: counts them, and has traps in all.
void perform(Step step, unsigned char *(&blocks)[kStepped], long stop_at, Instructions &known)
{
    const Subject &s = *meeting.subject;
    const bool counts = stop_at == LONG_MAX;
    const auto holds = static_cast<std::size_t>(std::lower_bound(known.begin(), known.end(), stop_at) - known.begin());
    const std::size_t first = counts || holds <= kLead ? 0 : holds - kLead - 1;
    meeting.traps = counts ? 0 : known[first];
    meeting.stop_at = stop_at;
    for (std::size_t i = 0; i < kStepped; ++i) {
        if (i == first) traps_begin();
        switch (step) {
        case Step::take: blocks[i] = bytes_of(launder(s.malloc(kSize))); break;
        case Step::give_back: s.free(blocks[i]); break;
        case Step::give_back_others: s.free(meeting.others[i]); break;
        case Step::resize: blocks[i] = bytes_of(launder(s.realloc(blocks[i], kGrown))); break;
        }
        if (counts) known[i + 1] = std::max(known[i + 1], meeting.traps);
    }
    traps_end();
}

// One round of the thread that stops, in `step` after `stop_at` instructions. What was wrong, or null.
const char *stop_in(Step step, long stop_at, Instructions &known)
{
    unsigned char *blocks[kStepped];
    const bool takes = step == Step::take;
    if (!takes)
        if (const char *wrong = take_all(blocks, 1)) return wrong;
    perform(step, blocks, stop_at, known);
    const int round = meeting.finished.load() + 1;
    meeting.stopped = round; // if no stop came
    await(meeting.done, round);
    if (meeting.wrong.load() != nullptr) return nullptr;
    if (step != Step::give_back) {
        for (auto *block : blocks)
            if (block == nullptr) return wrong_text("malloc or realloc gave NULL, errno %s", errno_text(errno));
        for (auto *block : blocks)
            if (takes) fill(block, kSize, 1);
        for (auto *block : blocks)
            if (!filled(block, kSize, 1)) return changed(block);
        for (auto *block : blocks) meeting.subject->free(block);
    }
    if (step != Step::give_back_others)
        for (auto *block : meeting.others) meeting.subject->free(block);
    return nullptr;
}

// Each step in turn. A stop comes after a share of the step's instructions; the shares lie evenly, as multiples of the
// golden ratio do. Now and then nothing stops, and the instructions are counted.
void stop_often()
{
    Instructions instructions[std::size(kSteps)] = {};
    for (int round = 1; round <= kRounds; ++round) {
        await(meeting.ready, round);
        if (meeting.wrong.load() != nullptr) return;
        const std::size_t which = static_cast<std::size_t>(round) % std::size(kSteps);
        const bool counts = static_cast<std::size_t>(round) % (16 * std::size(kSteps)) < 2 * std::size(kSteps);
        const double turns = round * 0.6180339887498949, share = turns - std::floor(turns);
        const auto all = static_cast<double>(instructions[which].back());
        const long stop_at = counts ? LONG_MAX : 1 + static_cast<long>(share * all);
        if (const char *wrong = stop_in(kSteps[which], stop_at, instructions[which])) meeting.wrong = wrong;
        meeting.stopped = round;
        meeting.finished = round;
    }
}

// Keeps the second block of each round for kKept rounds, and frees the others so that the first comes back last: a list
// whose head looks unchanged has changed. The kept blocks are zero, so that a list which runs through one ends there and
// gives it out.
const char *meet(unsigned char *&place)
{
    static constexpr unsigned char kZero[kSize] = {};
    if (place != nullptr && memcmp(place, kZero, kSize) != 0) return changed(place);
    unsigned char *blocks[kTaken];
    if (const char *wrong = take_all(blocks, 2)) return wrong;
    meeting.subject->free(std::exchange(place, std::exchange(blocks[1], nullptr)));
    memset(place, 0, kSize);
    for (std::size_t i = kTaken; i-- > 0;) meeting.subject->free(blocks[i]);
    return nullptr;
}

// Full of addresses of a kept block: a malloc that takes their content for a link gives it out.
const char *make_others(unsigned char *kept)
{
    if (const char *wrong = take_all(meeting.others, 3)) return wrong;
    for (auto *block : meeting.others)
        for (std::size_t at = 0; at < kSize; at += sizeof kept) memcpy(block + at, &kept, sizeof kept);
    return nullptr;
}

void meet_often()
{
    unsigned char *kept[kKept] = {}; // not freed at the end: a list may be damaged
    for (std::size_t round = 1; round <= kRounds; ++round) {
        if (const char *wrong = make_others(kept[(round - 1) % kKept])) meeting.wrong = wrong;
        const int number = static_cast<int>(round);
        meeting.ready = number;
        if (meeting.wrong.load() != nullptr) return;
        await(meeting.stopped, number);
        if (meeting.wrong.load() != nullptr) return;
        if (const char *wrong = meet(kept[round % kKept])) meeting.wrong = wrong;
        meeting.done = number;
        await(meeting.finished, number);
        if (meeting.wrong.load() != nullptr) return;
    }
}

// Takes locks and lists beside the others: a thread that steps takes other ways when they are busy.
void hurry()
{
    void *blocks[kTaken];
    while (meeting.finished.load() < kRounds && meeting.wrong.load() == nullptr) {
        for (void *&block : blocks) {
            block = launder(meeting.subject->malloc(kSize));
            if (block == nullptr) meeting.wrong = "malloc gave NULL";
            else memcpy(block, &block, sizeof block);
        }
        for (void *block : blocks) {
            if (block != nullptr && memcmp(block, &block, sizeof block) != 0) meeting.wrong = changed(block);
            if (meeting.wrong.load() != nullptr) return;
            meeting.subject->free(block);
        }
    }
}

// The thread that stops is the one that has forked, so that what malloc left to it at the fork is no other thread's either.
const char *stop_and_meet()
{
    auto meets = [] { meet_often(); };
    auto hurries = [] { hurry(); };
    Thread<decltype(meets)> first(meets);
    Thread<decltype(hurries)> second(hurries);
    if (!first.started() || !second.started()) meeting.wrong = "no thread"; // the others end
    stop_often();
    first.join();
    second.join();
    if (meeting.wrong.load() != nullptr) return meeting.wrong.load();
    return meeting.met < kMetLeast ? kTooFew : nullptr;
}

Verdict stopped_anywhere(const Subject &s)
{
    meeting.subject = &s;
    struct sigaction action{}, before{};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, &before);
    meeting.stop_at = LONG_MAX;
    traps_begin();
    traps_end();
    if (meeting.traps == 0) {
        sigaction(SIGTRAP, &before, nullptr);
        return skip("no trap comes after an instruction: that is built for x86-64, and valgrind has none");
    }
    now_doing("malloc, free and realloc in a thread that stops between two instructions");
    // In a child: the system ends a process by SIGTRAP if it traps with all signals blocked.
    const char *wrong = in_fork(stop_and_meet);
    sigaction(SIGTRAP, &before, nullptr);
    if (wrong == nullptr) return pass();
    if (strcmp(wrong, "ended by SIGTRAP") == 0) return skip("this malloc blocks all signals, so nothing stops it");
    if (strstr(wrong, kTooFew) != nullptr)
        return skip("in fewer than %d of %d stops another thread could allocate", kMetLeast, kRounds);
    if (strstr(wrong, kTooLong) != nullptr)
        return skip("a step took more than %ld instructions: a malloc whose sections begin again at a signal",
                    kTrapsMax);
    return fail("%s", wrong);
}

constexpr Check kStepChecks[] = {
    {"stopped-anywhere",
     "a thread may stop between any two instructions of malloc, free and realloc, while another one allocates and frees",
     "C23 7.24.3: blocks are disjoint; calls of several threads appear to be made one after another, however long one takes",
     "rpmalloc#32, mimalloc#164",
     {33},
     stopped_anywhere},
};

} // namespace

std::span<const Check> step_checks()
{
    return kStepChecks;
}

} // namespace stress::conform
