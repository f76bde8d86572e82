// The options that one scenario alone has. The scenario's own_options makes an object of them. options_parse registers
// them with the parser, has them settled, and keeps the object in Options::own, where the scenario's plan finds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/options.h"

namespace CLI {
class App;
}

namespace stress {

inline constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 32; // of a block, in bytes
inline constexpr std::uint64_t kCountMax = std::uint64_t{1} << 53;
inline constexpr std::uint32_t kThreadsMax = 1024;

// Bad input that shows only when all of it has been read.
struct BadInput {
    std::string text;
};

class OwnOptions {
  public:
    virtual ~OwnOptions() = default;

    // Registers the options. The parser writes into this object, which must outlive it.
    virtual void add(CLI::App &app) = 0;

    // All is read, and what was left out of the common options has no default yet: changes what these options imply.
    // Throws BadInput.
    virtual void settle(Options &common) = 0;

    // The common options are final: chooses the defaults that depend on them, and checks. Throws BadInput.
    virtual void finish(const Options &) {}
};

// The own options of the scenario that was chosen, which must be the one that has T.
template <typename T> const T &own_options(const Options &options)
{
    return dynamic_cast<const T &>(*options.own);
}

// Refuses more blocks in each thread than a run can have. Throws BadInput.
void check_blocks(const Options &common, std::uint64_t thread_blocks);

// Takes the positional arguments of a classic benchmark in order. Each stands for an option, whose name it has.
class Classic {
  public:
    explicit Classic(const std::vector<std::string> &words) : words_(words) {}

    // False if no argument is left; the value is then unchanged. Throws BadInput.
    bool take_count(const char *name, std::uint64_t low, std::uint64_t high, std::uint64_t &value);
    bool take_seconds(double &value);

  private:
    const std::vector<std::string> &words_;
    std::size_t next_ = 0;
};

} // namespace stress
