// A scenario: a name, and a plan that says which ops each seat draws. The engine does the rest: loops, threads, checks,
// progress, memory and reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/rng.h"
#include "engine/judge/failure.h" // the names of rules, for claims
#include "engine/run/injection.h"
#include "engine/run/options.h"
#include "engine/run/own_options.h"
#include "engine/seat/generator.h"

namespace stress {

// What a plan may depend on.
struct Setup {
    const Options &options;
    std::uint64_t seed;
    std::uint32_t seats;

    // A seat's stream of random numbers; `part` distinguishes several streams of one seat.
    Rng rng(std::uint32_t seat, std::uint64_t part = 0) const { return Rng(seed, seat + (part << 32)); }
};

// A rule that a scenario is there to test. A run of at least ops_min ops that never has a case of it proves nothing of it.
struct Claim {
    // A shorter run may miss a kind of op by chance.
    Claim(const char *the_rule, std::uint64_t at_least = 5000) : rule(the_rule), ops_min(at_least) {}

    const char *rule;
    std::uint64_t ops_min;
};

struct Plan {
    std::size_t slot_count = 0;
    std::vector<std::unique_ptr<Generator>> generators; // one for each seat
    // Live bytes that come and go in cycles longer than a lap, if the live set is not steady. Samples between laps
    // catch any stage of a cycle, and a malloc may keep some of the memory; the plateau rule allows for that much.
    std::uint64_t swing_bytes = 0;
    bool judge_lines = false; // whether two seats must not share a cache line: false_sharing
    std::string skip; // if not empty: why this scenario can prove nothing here
    bool directs_forks = false; // Fork ops fork while another thread is stopped inside the allocator
    bool traps_os = false; // the plan has FailOs ops
    Injection injection; // none, unless a command sets one
    std::vector<Claim> claims; // of checked runs
    // Compares the subject's profile with what was allocated and freed in all, when no thread is in the subject. Returns
    // what is wrong. nullptr: there is no profile.
    std::function<std::string(std::uint64_t bytes_allocated, std::uint64_t bytes_freed)> judge_profile;
};

struct Scenario {
    const char *name;
    const char *purpose; // one line
    ScenarioDefaults defaults;
    Plan (*plan)(const Setup &setup);
    std::unique_ptr<OwnOptions> (*own_options)() = nullptr; // nullptr: it takes the common options alone
};

std::span<const Scenario> scenarios();

// nullptr if there is no scenario of this name.
const Scenario *scenario_find(const std::string &name);

} // namespace stress
