#include "engine/subject/fault_os.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "engine/base/build.h"
#include "engine/op/counters.h"
#include "engine/subject/inside.h"

#if STRESS_X86_64
// The filter lets system calls pass only from this place. The kernel reports the address after the instruction.
asm(R"(
    .pushsection .text
    .type stress_passed_call, @function
stress_passed_call:
    .cfi_startproc
    mov %rdi, %rax
    mov %rsi, %rdi
    mov %rdx, %rsi
    mov %rcx, %rdx
    mov %r8, %r10
    mov %r9, %r8
    mov 8(%rsp), %r9
    syscall
stress_passed_call_end:
    ret
    .cfi_endproc
    .size stress_passed_call, . - stress_passed_call
    .popsection
)");
extern "C" long stress_passed_call(long number, long a, long b, long c, long d, long e, long f);
extern "C" const char stress_passed_call_end[];
#endif

namespace stress {
namespace {

constexpr long kTrapped[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_mprotect};

struct State {
    ProcessCounts *counts;  // nullptr: nothing is armed on this thread
    std::uint64_t left;     // calls until one fails; 0: none will
    bool for_ever;
};
constinit thread_local State state{};

bool installed = false;

// The state of the whole process. Everything but the counts changes only while no thread is in the subject. Relaxed: it
// orders nothing.
struct ProcessState {
    Scarcity *scarcity; // nullptr: nothing is armed
    std::uint64_t nth;
    bool for_ever;
    std::atomic<std::uint64_t> calls, failures;
};
constinit ProcessState process{};
constinit std::atomic<std::uint64_t> unreturned_bytes{0}; // relaxed: a figure

#if STRESS_X86_64

// Runs in a signal handler, so it uses only atomics.
bool strikes_process()
{
    if (process.scarcity == nullptr) return false;
    const std::uint64_t call = process.calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (process.nth == 0 || call < process.nth || (call > process.nth && !process.for_ever)) return false;
    // Before the call fails, so that any thread that learns of the failure finds memory scarce.
    if (process.failures.fetch_add(1, std::memory_order_relaxed) == 0) {
        process.scarcity->begin();
        if (!process.for_ever) process.scarcity->end();
    }
    return true;
}

// Whether this call must fail.
bool strikes()
{
    if (!inside_subject) return false;
    if (strikes_process()) return true;
    if (state.counts == nullptr) return false;
    bump(state.counts->os_calls, 1);
    if (state.left == 0 || --state.left > 0) return false;
    if (state.for_ever) state.left = 1;
    bump(state.counts->os_failures, 1);
    return true;
}

void on_trap(int, siginfo_t *info, void *context)
{
    const int before = errno;
    greg_t *const r = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    const long number = info->si_syscall;
    if (!strikes())
        r[REG_RAX] = stress_passed_call(number, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
    else if (number == SYS_brk) r[REG_RAX] = stress_passed_call(SYS_brk, 0, 0, 0, 0, 0, 0);
    else r[REG_RAX] = -ENOMEM;
    const bool gives_back =
        number == SYS_munmap || (number == SYS_madvise && (r[REG_RDX] == MADV_DONTNEED || r[REG_RDX] == MADV_FREE));
    if (r[REG_RAX] == -ENOMEM && gives_back)
        unreturned_bytes.fetch_add(static_cast<std::uint64_t>(r[REG_RSI]), std::memory_order_relaxed);
    errno = before;
}

bool install_handler()
{
    struct sigaction action{};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSYS, &action, nullptr) == 0;
}

bool install_filter()
{
    const auto passed = reinterpret_cast<std::uintptr_t>(stress_passed_call_end);
    constexpr unsigned ip = offsetof(seccomp_data, instruction_pointer);
    sock_filter code[32];
    unsigned short n = 0;
    const auto add = [&](unsigned short op, std::uint32_t k, unsigned char on_true = 0, unsigned char on_false = 0) {
        code[n++] = sock_filter{op, on_true, on_false, k};
    };
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    // Each match jumps over the rest of the list and the ALLOW after it.
    constexpr std::size_t count = std::size(kTrapped);
    for (std::size_t i = 0; i < count; ++i)
        add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(kTrapped[i]), static_cast<unsigned char>(count - i),
            0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_LD | BPF_W | BPF_ABS, ip);
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(passed), 0, 3);
    add(BPF_LD | BPF_W | BPF_ABS, ip + 4);
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(passed >> 32), 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    const sock_fprog program{n, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

bool install()
{
    return install_handler() && install_filter();
}

#else

bool install()
{
    return false;
}

#endif

// Runs in a child, since a filter can never be removed. Checks that a trapped call still does its work.
bool works_in_child()
{
    const pid_t child = fork();
    if (child == 0) {
        if (!install()) _exit(1);
        void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        _exit(page == MAP_FAILED || munmap(page, 4096) != 0);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Bytes of address space in use; 0 if /proc cannot be read.
std::uint64_t mapped_bytes()
{
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    char text[128];
    const ssize_t length = ::read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = '\0';
    return std::strtoull(text, nullptr, 10) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

std::string fault_os_refusal()
{
    if (kSanitized) return "a sanitizer maps memory for itself inside the allocator's calls";
    if (!STRESS_X86_64) return "the handler of trapped system calls is written for x86-64 only";
    if (installed || works_in_child()) return "";
    return "this system refuses a seccomp filter with SECCOMP_RET_TRAP";
}

bool fault_os_install()
{
    installed = installed || (!kSanitized && install());
    return installed;
}

bool fault_os_installed()
{
    return installed;
}

void fault_os_arm(ProcessCounts &counts, std::uint64_t nth, bool for_ever)
{
    state = {&counts, nth, for_ever};
}

void fault_os_disarm()
{
    state = {};
}

void fault_os_arm_process(Scarcity &scarcity, std::uint64_t nth, bool for_ever)
{
    process.nth = nth;
    process.for_ever = for_ever;
    process.calls.store(0, std::memory_order_relaxed);
    process.failures.store(0, std::memory_order_relaxed);
    process.scarcity = &scarcity;
}

FaultOsCounts fault_os_disarm_process()
{
    const FaultOsCounts counts{process.calls.load(std::memory_order_relaxed),
                               process.failures.load(std::memory_order_relaxed)};
    if (process.scarcity != nullptr && process.for_ever && counts.failures != 0) process.scarcity->end();
    process.scarcity = nullptr;
    return counts;
}

std::uint64_t fault_os_unreturned_bytes()
{
    return unreturned_bytes.load(std::memory_order_relaxed);
}

bool fault_os_process_is_armed()
{
    return process.scarcity != nullptr;
}

int memory_limit_set(std::uint64_t more_bytes)
{
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0) return errno;
    limit.rlim_cur = limit.rlim_max;
    if (more_bytes != 0) {
        const std::uint64_t mapped = mapped_bytes();
        if (mapped == 0) return ENOENT;
        limit.rlim_cur = mapped + more_bytes;
    }
    return setrlimit(RLIMIT_AS, &limit) == 0 ? 0 : errno;
}

} // namespace stress
