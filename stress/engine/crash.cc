#include "engine/crash.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace stress {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};

// Set once before the run; read by the handler, which may use neither stdio nor the heap.
const FailureLog *crash_failures = nullptr;
char crash_tail[2048];

void write_bytes(const char *text)
{
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void on_signal(int signal_number)
{
    signal(signal_number, SIG_DFL);
    write_bytes("hakmem-stress: the subject ended the run with signal SIG");
    write_bytes(sigabbrev_np(signal_number));
    if (crash_failures != nullptr && crash_failures->size() > 0) {
        write_bytes("; before that, ");
        write_bytes((*crash_failures)[0].rule);
        write_bytes(": ");
        write_bytes((*crash_failures)[0].detail);
    }
    write_bytes(crash_tail);
    raise(signal_number);
}

}  // namespace

void crash_line_install(const FailureLog &failures, std::uint64_t seed, const std::string &reproduce)
{
    crash_failures = &failures;
    std::snprintf(crash_tail, sizeof crash_tail, "; seed %llu; repeat with: %s\n",
                  static_cast<unsigned long long>(seed), reproduce.c_str());
    for (int signal_number : kSignals) {
        struct sigaction old;
        if (sigaction(signal_number, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
        struct sigaction action{};
        action.sa_handler = on_signal;
        action.sa_flags = SA_NODEFER;
        sigaction(signal_number, &action, nullptr);
    }
}

void crash_line_remove()
{
    for (int signal_number : kSignals) {
        struct sigaction old;
        if (sigaction(signal_number, nullptr, &old) == 0 && old.sa_handler == on_signal) signal(signal_number, SIG_DFL);
    }
    crash_failures = nullptr;
}

}  // namespace stress
