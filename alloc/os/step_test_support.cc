// step_test_support.cc: by the trap flag of x86-64. See step_test_support.h.
#include "os/step_test_support.h"

#ifndef __x86_64__

namespace test {

const char *stepping_lacks()
{
    return "only x86-64 is stepped";
}

StepCounts step_through(const Stepped &, const std::function<void(uint64_t, uintptr_t)> &)
{
    return {};
}

} // namespace test

#else

#include <signal.h>
#include <ucontext.h>

namespace {

using Registers = const greg_t *;

constexpr greg_t TRAP_FLAG = 0x100;

uint64_t register_of(Registers registers, unsigned number)
{
    static constexpr int ORDER[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)registers[ORDER[number]];
}

// The address of the operand in memory, of an instruction without a prefix for another segment. at: the ModRM byte.
uint64_t operand_address(const unsigned char *at, unsigned rex, Registers registers)
{
    unsigned mod = *at >> 6, rm = *at & 7;
    at++;
    uint64_t address = 0;
    if (rm == 4) {
        unsigned sib = *at++, index = (sib >> 3 & 7) | (rex & 2) << 2;
        if (index != 4) address += register_of(registers, index) << (sib >> 6);
        if ((sib & 7) == 5 && mod == 0) mod = 2;
        else address += register_of(registers, (sib & 7) | (rex & 1) << 3);
    } else {
        address += register_of(registers, rm | (rex & 1) << 3);
    }
    int32_t far;
    memcpy(&far, at, sizeof far);
    if (mod == 1) address += (uint64_t)(int64_t)(int8_t)*at;
    if (mod == 2) address += (uint64_t)(int64_t)far;
    return address;
}

bool one_of(unsigned code, std::initializer_list<unsigned> codes)
{
    return std::find(codes.begin(), codes.end(), code) != codes.end();
}

// Opcodes of one byte that write to the operand of their ModRM byte. kind: the three bits that choose in groups.
bool writes_operand(unsigned code, unsigned kind)
{
    if (code < 0x40) return (code & 7) < 2 && code < 0x38; // add, or, ... xor; not cmp
    if (one_of(code, {0x80, 0x81, 0x83})) return kind != 7;
    if (one_of(code, {0xf6, 0xf7})) return kind == 2 || kind == 3;
    if (one_of(code, {0xfe, 0xff})) return kind < 2;
    return one_of(code, {0x86, 0x87, 0x88, 0x89, 0x8c, 0x8f, 0xc0, 0xc1, 0xc6, 0xc7, 0xd0, 0xd1, 0xd2, 0xd3});
}

// The same of those with 0F before.
bool writes_operand_0f(unsigned code, unsigned kind)
{
    if (code == 0xba) return kind > 4;
    if (code == 0xae) return kind == 0 || kind == 3 || kind == 4 || kind == 6;
    return (code >= 0x90 && code < 0xa0) ||
           one_of(code, {0x11, 0x13, 0x17, 0x29, 0x2b, 0x7e, 0x7f, 0xa4, 0xa5, 0xab, 0xac,
                         0xad, 0xb0, 0xb1, 0xb3, 0xbb, 0xc0, 0xc1, 0xc3, 0xc7, 0xd6, 0xe7});
}

// Whether the instruction may write to memory outside of [low, high), the thread's stack, or calls the system. True if in
// doubt: such a stop finds what the one before found.
bool may_write(const unsigned char *at, Registers registers, uint64_t low, uint64_t high)
{
    unsigned rex = 0;
    bool other_segment = false;
    for (; one_of(*at, {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0xf0, 0xf2, 0xf3}); at++)
        other_segment = other_segment || *at == 0x64 || *at == 0x65;
    if ((*at & 0xf0) == 0x40) rex = *at++;
    if (*at == 0xc5) return at[3] < 0xc0; // AVX: whatever has an operand in memory
    if (*at == 0xc4) return at[4] < 0xc0;
    if (*at == 0x62) return at[5] < 0xc0;
    if (one_of(*at, {0xa2, 0xa3, 0xa4, 0xa5, 0xaa, 0xab})) return true; // movs, stos
    const bool two = *at == 0x0f;
    if (two) at++;
    if (two && *at == 0x05) return true; // syscall
    const unsigned kind = at[1] >> 3 & 7;
    if (!(two ? writes_operand_0f(*at, kind) : writes_operand(*at, kind))) return false;
    if (at[1] >= 0xc0) return false; // a register
    if (other_segment || (at[1] & 0xc7) == 5) return true; // thread-local, or beside the code
    const uint64_t address = operand_address(at + 1, rex, registers);
    return address < low || address >= high;
}

// Runs a long copy or clear at once, where each byte would be an instruction: the content of the program's blocks.
void hurry_through(greg_t *registers)
{
    const auto *at = reinterpret_cast<const unsigned char *>(registers[REG_RIP]);
    const bool wide = at[1] == 0x48;
    const unsigned code = at[wide ? 2 : 1];
    if (at[0] != 0xf3 || !one_of(code, {0xa4, 0xa5, 0xaa, 0xab})) return;
    const size_t unit = (code & 1) == 0 ? 1 : wide ? 8 : 4, bytes = (size_t)registers[REG_RCX] * unit;
    if (bytes <= 4096) return;
    auto *to = reinterpret_cast<char *>(registers[REG_RDI]);
    if (code < 0xaa) memcpy(to, reinterpret_cast<const char *>(registers[REG_RSI]), bytes);
    else
        for (size_t i = 0; i < bytes; i += unit) memcpy(to + i, &registers[REG_RAX], unit);
    registers[REG_RDI] += (greg_t)bytes;
    if (code < 0xaa) registers[REG_RSI] += (greg_t)bytes;
    registers[REG_RCX] = 0;
    registers[REG_RIP] += wide ? 3 : 2;
}

// --- the thread ----------------------------------------------------------------------------------------------------

enum { RUNNING, STOPPED, DONE };
constexpr uint64_t RED_ZONE_BYTES = 128;
constexpr size_t CODES = 1 << 14; // above the number of instructions of the program that write in one call
constexpr uint32_t AGAIN_MAX = 16;

struct Times {
    uintptr_t code;
    uint32_t times;
};

struct Thread {
    const test::Stepped *stepped;
    std::atomic<int> state = RUNNING;
    bool wrote = false; // the instruction that runs next
    uint64_t stack_top = 0;
    uintptr_t code = 0;
    std::vector<test::Span> spans;
    std::vector<unsigned char> seen; // the content of the spans
    std::vector<Times> times = std::vector<Times>(CODES); // how often each instruction wrote
    uint64_t next_stop = 0;
    test::StepCounts counts = {};
};
thread_local Thread *mine;

extern "C" const char __executable_start[], etext[];

// Code of the program, and what it calls to copy and clear. Elsewhere libc may hold a lock that fork needs.
bool may_stop_in(uintptr_t code)
{
    if (code >= (uintptr_t)__executable_start && code < (uintptr_t)etext) return true;
    for (uintptr_t copies : {(uintptr_t)memcpy, (uintptr_t)memset, (uintptr_t)memmove})
        if (code - copies + 256 < 2048) return true;
    return false;
}

// Whether the watched memory has changed since the last call.
bool has_changed(Thread &thread)
{
    bool changed = false;
    unsigned char *seen = thread.seen.data();
    for (const test::Span &span : thread.spans) {
        if (memcmp(seen, span.start, span.size_bytes) != 0) {
            changed = true;
            memcpy(seen, span.start, span.size_bytes);
        }
        seen += span.size_bytes;
    }
    return changed;
}

bool counts_again(Thread &thread, uintptr_t code)
{
    size_t at = code * 0x9e3779b97f4a7c15 % CODES;
    while (thread.times[at].code != code && thread.times[at].code != 0) at = (at + 1) % CODES;
    thread.times[at].code = code;
    const uint32_t times = ++thread.times[at].times;
    return times <= AGAIN_MAX || (times & (times - 1)) == 0;
}

void stop_here(Thread &thread)
{
    const uint64_t stride = thread.stepped->stride;
    thread.next_stop += stride + (stride > 1 ? thread.counts.writes / 8 : 0);
    thread.counts.stops++;
    thread.state = STOPPED;
    thread.state.notify_one();
    thread.state.wait(STOPPED);
}

// After each instruction, and at the two breakpoints around the work. SI_KERNEL: a breakpoint, which is no step. A virtual
// machine that is busy may lose why it trapped, so a step need not be a TRAP_TRACE.
void on_trap(int, siginfo_t *info, void *context)
{
    greg_t *registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    if (mine == nullptr) return;
    Thread &thread = *mine;
    if (info->si_code == SI_KERNEL) {
        registers[REG_EFL] ^= TRAP_FLAG;
        return;
    }
    const auto code = (uintptr_t)registers[REG_RIP];
    thread.counts.instructions++;
    const bool changed = has_changed(thread);
    if (changed && !thread.wrote && thread.counts.missed == 0) thread.counts.missed = code;
    const bool counts = thread.wrote && may_stop_in(thread.code) && counts_again(thread, thread.code);
    thread.code = code;
    if (counts && thread.counts.writes++ == thread.next_stop) stop_here(thread);
    hurry_through(registers);
    thread.wrote = may_write(reinterpret_cast<const unsigned char *>(code), registers,
                             (uint64_t)registers[REG_RSP] - RED_ZONE_BYTES, thread.stack_top);
}

__attribute__((noinline)) void run(void (*work)())
{
    __asm__ volatile("int3" ::: "memory");
    work();
    __asm__ volatile("int3" ::: "memory");
}

void thread_main(Thread &thread)
{
    const test::Stepped &stepped = *thread.stepped;
    if (stepped.before) stepped.before();
    if (stepped.watched) thread.spans = stepped.watched();
    for (const test::Span &span : thread.spans) {
        const auto *bytes = static_cast<const unsigned char *>(span.start);
        thread.seen.insert(thread.seen.end(), bytes, bytes + span.size_bytes);
    }
    thread.stack_top = (uint64_t)__builtin_frame_address(0);
    thread.next_stop = stepped.first;
    mine = &thread;
    run(stepped.work);
    mine = nullptr;
    if (stepped.after) stepped.after();
    thread.state = DONE;
    thread.state.notify_one();
}

// The handler while tests step; the one before afterwards.
class Handler {
  public:
    Handler()
    {
        struct sigaction action = {};
        action.sa_sigaction = on_trap;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        sigaction(SIGTRAP, &action, &before_);
    }
    ~Handler() { sigaction(SIGTRAP, &before_, nullptr); }

  private:
    struct sigaction before_;
};

} // namespace

namespace test {

StepCounts step_through(const Stepped &stepped, const std::function<void(uint64_t, uintptr_t)> &at_stop)
{
    Handler handler;
    Thread thread;
    thread.stepped = &stepped;
    std::thread worker([&thread] { thread_main(thread); });
    for (;;) {
        thread.state.wait(RUNNING);
        if (thread.state == DONE) break;
        at_stop(thread.counts.writes - 1, thread.code);
        thread.state = RUNNING;
        thread.state.notify_one();
    }
    worker.join();
    return thread.counts;
}

const char *stepping_lacks()
{
    static std::atomic<int> word;
    const Stepped three = {{},
                           [] {
                               for (int i = 1; i < 4; i++) word = i;
                           },
                           {},
                           1,
                           0,
                           [] { return std::vector<Span>{{&word, sizeof word}}; }};
    const StepCounts counts = step_through(three, [](uint64_t, uintptr_t) {});
    return counts.writes == 3 && counts.missed == 0 ? nullptr : "no trap after each instruction, as under an emulator";
}

} // namespace test

#endif
