// The options of remote-free: who allocates, who frees, and how blocks travel.
#pragma once

#include <cstdint>

#include "engine/run/own_options.h"

namespace stress {

enum class RemoteMode { Queue, Ring, AllToAll, OwnerExit, FreeOnly, All };

class RemoteFreeOptions final : public OwnOptions {
  public:
    std::uint32_t producers = 0, consumers = 0; // all threads of the run
    RemoteMode mode = RemoteMode::All;
    std::uint64_t queue_slots = 0; // 0: chosen to suit the length of the run

    void add(CLI::App &app) override;
    void settle(Options &common) override;
};

} // namespace stress
