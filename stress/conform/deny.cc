#include "conform/deny.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace stress::conform {
namespace {

constexpr std::size_t kProgramMax = 64;

// A filter under construction. At the start of each rule the accumulator has the call's number.
struct Program {
    sock_filter code[kProgramMax];
    unsigned short length = 0;

    void add(unsigned short op, unsigned k, unsigned char on_true = 0, unsigned char on_false = 0)
    {
        code[length++] = sock_filter{op, on_true, on_false, k};
    }
    void load(unsigned offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
    void load_number() { load(offsetof(seccomp_data, nr)); }
    void rule(long number, unsigned action)
    {
        add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1);
        add(BPF_RET | BPF_K, action);
    }
    // Denies mmap, except for a stack.
    void rule_mmap(unsigned action)
    {
        add(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4);
        load(offsetof(seccomp_data, args[3]));
        add(BPF_JMP | BPF_JSET | BPF_K, MAP_STACK, 1, 0);
        add(BPF_RET | BPF_K, action);
        load_number();
    }
    void end() { add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW); }
};

// Installs the filter. Returns a listener's descriptor if the flags ask for one, otherwise 0; -1 if the kernel refuses.
int install(Program &program, unsigned flags)
{
    sock_fprog filter{program.length, program.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter));
}

} // namespace

bool deny_memory()
{
    Program program;
    program.load_number();
    program.rule_mmap(SECCOMP_RET_ERRNO | ENOMEM);
    program.rule(SYS_mremap, SECCOMP_RET_ERRNO | ENOMEM);
    program.rule(SYS_mprotect, SECCOMP_RET_ERRNO | ENOMEM);
    // brk fails not with an error but by returning the current break; 0 is below any requested break.
    program.rule(SYS_brk, SECCOMP_RET_ERRNO | 0);
    program.end();
    if (install(program, 0) < 0) return false;
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED && errno == ENOMEM;
}

bool deny_calls(std::span<const long> numbers, int error)
{
    Program program;
    program.load_number();
    for (long number : numbers) program.rule(number, SECCOMP_RET_ERRNO | static_cast<unsigned>(error));
    program.end();
    if (install(program, 0) < 0) return false;
    for (long number : numbers) { // with these arguments none of them could succeed anyway
        errno = 0;
        if (syscall(number, 1, 1, -1, 0, 0, 0) != -1 || errno != error) return false;
    }
    return true;
}

int gate_memory_calls()
{
    Program program;
    program.load_number();
    program.rule_mmap(SECCOMP_RET_USER_NOTIF);
    for (long number : {SYS_brk, SYS_mremap, SYS_munmap, SYS_madvise, SYS_mprotect})
        program.rule(number, SECCOMP_RET_USER_NOTIF);
    program.end();
    return install(program, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

bool Gate::arrived(int milliseconds)
{
    pollfd waiting{descriptor_, POLLIN, 0};
    if (poll(&waiting, 1, milliseconds) != 1 || (waiting.revents & POLLIN) == 0) return false;
    seccomp_notif call{};
    if (ioctl(descriptor_, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return false;
    id_ = call.id;
    return true;
}

void Gate::pass()
{
    seccomp_notif_resp response{};
    response.id = id_;
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(descriptor_, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

} // namespace stress::conform
