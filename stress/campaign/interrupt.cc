#include "campaign/interrupt.h"

#include <signal.h>

namespace stress {
namespace {

volatile sig_atomic_t requested = 0;

void on_signal(int)
{
    requested = 1;
}

}  // namespace

void interrupt_install()
{
    requested = 0;
    struct sigaction action{};
    action.sa_handler = on_signal;
    constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int signal_number : signals) {
        struct sigaction old;
        // Under nohup SIGHUP is ignored, and must stay so.
        if (sigaction(signal_number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signal_number, &action, nullptr);
    }
}

bool interrupt_requested()
{
    return requested != 0;
}

}  // namespace stress
