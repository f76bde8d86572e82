// The options of larson: of the benchmark, and its classic arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/own_options.h"

namespace stress {

class LarsonOptions final : public OwnOptions {
  public:
    std::uint64_t chunks = 0;  // blocks in a thread's window
    std::uint64_t rounds = 10; // how many times a thread replaces its whole window

    void add(CLI::App &app) override;
    void settle(Options &common) override;
    void finish(const Options &common) override;

  private:
    std::vector<std::string> classic_;
};

} // namespace stress
