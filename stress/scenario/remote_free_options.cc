#include "scenario/remote_free_options.h"

#include <map>

#include "engine/base/cli_numbers.h"
#include "scenario/scenarios.h"

namespace stress {

// The table of words is never destroyed, for the reason at the table of schedules in engine/run/options_parse.cc.
void RemoteFreeOptions::add(CLI::App &app)
{
    static const auto &modes = *new std::map<std::string, RemoteMode>{
        {"queue", RemoteMode::Queue},         {"ring", RemoteMode::Ring},
        {"all-to-all", RemoteMode::AllToAll}, {"owner-exit", RemoteMode::OwnerExit},
        {"free-only", RemoteMode::FreeOnly},  {"all", RemoteMode::All}};
    app.add_option("--producers", producers, "threads that allocate (default: half of --threads, at least 1)")
        ->check(whole_number(1, kThreadsMax));
    app.add_option("--consumers", consumers, "threads that free (default: the other half, at least 1)")
        ->check(whole_number(1, kThreadsMax));
    app.add_option_function<std::string>(
           "--mode", [this](const std::string &name) { mode = modes.at(name); },
           "queue, ring, all-to-all, owner-exit, free-only, or all in turn (default)")
        ->check(CLI::Validator(
            [](std::string &name) {
                return modes.count(name) != 0
                           ? std::string()
                           : "must be queue, ring, all-to-all, owner-exit, free-only or all, not '" + name + "'";
            },
            "MODE"));
    app.add_option("--queue-slots", queue_slots,
                   "blocks on the way between two threads, a power of two (default 1024, fewer in short runs)")
        ->check(whole_number(2, 1 << 20));
}

void RemoteFreeOptions::settle(Options &common)
{
    const std::uint32_t half = common.threads / 2 > 0 ? common.threads / 2 : 1;
    const std::uint32_t rest = common.threads > half ? common.threads - half : 1;
    if (producers == 0) producers = half;
    if (consumers == 0) consumers = rest;
    common.threads = producers + consumers;
    // Two of these modes have a channel from every thread to every other; see kOpSlotsMax.
    constexpr std::uint32_t threads_max = 512;
    if (common.threads > threads_max)
        throw BadInput{"--threads: remote-free takes at most " + std::to_string(threads_max) + " threads, not " +
                       std::to_string(common.threads)};
    if ((queue_slots & (queue_slots - 1)) != 0)
        throw BadInput{"--queue-slots: must be a power of two, not " + std::to_string(queue_slots)};
}

std::unique_ptr<OwnOptions> remote_free_options()
{
    return std::make_unique<RemoteFreeOptions>();
}

} // namespace stress
