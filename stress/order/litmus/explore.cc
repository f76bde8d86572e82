#include "order/litmus/explore.h"

#include <cstring>

#include "order/run/fibers.h"
#include "order/run/machine.h"

namespace stress::order {
namespace {

constexpr unsigned kMemoryBytes = 192;

// Global, so that the addresses, and with them the digests, are the same in every run.
alignas(64) unsigned char memory[kMemoryBytes];

using Registers = std::vector<std::vector<litmus_value>>;

void run_thread(const std::vector<LitmusStep> &steps, std::vector<litmus_value> &registers)
{
    for (const LitmusStep &step : steps) {
        const litmus_value from = step.from_register < 0 ? 0 : registers[static_cast<unsigned>(step.from_register)];
        if (step.is_test) {
            if (step.is_greater ? from <= step.expected : from != step.expected) return;
            continue;
        }
        const LitmusLocation &at = litmus_locations()[step.location];
        const litmus_value read = litmus_step(step.kind, memory + at.offset, at.bytes, from + step.value, step.expected,
                                              step.order, step.failure);
        if (step.reads()) registers.push_back(read);
    }
}

std::vector<litmus_value> last_values(const std::vector<unsigned> &finals)
{
    std::vector<litmus_value> last;
    for (const unsigned location : finals) {
        last.push_back(0);
        std::memcpy(&last.back(), memory + litmus_locations()[location].offset, litmus_locations()[location].bytes);
    }
    return last;
}

} // namespace

LitmusSeen litmus_explore(const LitmusProgram &program, Rules rules, Bounds bounds)
{
    static Fibers fibers;
    Machine machine(fibers, rules);
    Search search(bounds, true);
    LitmusSeen seen;
    Registers registers;
    const auto finals = litmus_finals(program);
    do {
        std::memset(memory, 0, sizeof memory);
        registers.assign(program.size(), {});
        const auto result = machine.run(
            static_cast<unsigned>(program.size()), [&](unsigned i) { run_thread(program[i], registers[i]); }, search);
        seen.runs++;
        if (result.race) seen.outcomes.insert("race");
        if (result.race || result.is_pruned) continue;
        seen.executions++;
        seen.outcomes.insert(litmus_outcome(registers, last_values(finals)));
    } while (search.next());
    if (seen.outcomes.contains("race")) seen.outcomes = {"race"};
    return seen;
}

} // namespace stress::order
