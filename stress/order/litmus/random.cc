#include "order/litmus/random.h"

#include <algorithm>
#include <string_view>

namespace stress::order {
namespace {

unsigned below(std::mt19937_64 &random, unsigned bound)
{
    return static_cast<unsigned>(random() % bound);
}

unsigned pick(std::mt19937_64 &random, std::initializer_list<unsigned> from)
{
    return from.begin()[below(random, static_cast<unsigned>(from.size()))];
}

unsigned location(std::string_view name)
{
    const auto &all = litmus_locations();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto &each) { return name == each.name; });
    return static_cast<unsigned>(found - all.begin());
}

constexpr unsigned kRelaxed = 0, kConsume = 1, kAcquire = 2, kRelease = 3, kBoth = 4, kSerial = 5;

struct Shape {
    bool has_plain, is_serial; // is_serial: mostly seq_cst, at two locations
};

LitmusStep draw(std::mt19937_64 &random, unsigned stored, Shape shape)
{
    LitmusStep step;
    step.location = location(below(random, 2) == 0 ? "x" : !shape.is_serial && below(random, 4) == 0 ? "z" : "y");
    step.value = stored;
    if (shape.has_plain && below(random, 3) == 0) {
        step.location = location("d");
        step.kind = below(random, 2) == 0 ? LITMUS_LOAD : LITMUS_STORE;
        step.order = LITMUS_PLAIN;
        return step;
    }
    const bool is_serial = shape.is_serial && below(random, 3) != 0;
    switch (below(random, 10)) {
    case 0:
    case 1:
        step.kind = LITMUS_FENCE;
        step.order = pick(random, {kAcquire, kRelease, kBoth, kSerial, kSerial});
        break;
    case 2:
    case 3:
    case 4:
        step.kind = LITMUS_STORE;
        step.order = pick(random, {kRelaxed, kRelease, kSerial});
        break;
    case 5:
        step.kind = below(random, 2) == 0 ? LITMUS_ADD : LITMUS_EXCHANGE;
        step.order = pick(random, {kRelaxed, kAcquire, kRelease, kBoth, kSerial});
        break;
    case 6:
        step.kind = LITMUS_COMPARE;
        step.expected = below(random, 2);
        step.order = pick(random, {kRelaxed, kAcquire, kRelease, kBoth, kSerial});
        break;
    default:
        step.kind = LITMUS_LOAD;
        step.order = pick(random, {kRelaxed, kAcquire, kConsume, kSerial});
        break;
    }
    if (is_serial) step.order = kSerial;
    if (step.kind == LITMUS_COMPARE) step.failure = pick(random, {kRelaxed, kAcquire, kSerial});
    return step;
}

} // namespace

LitmusProgram litmus_random(std::mt19937_64 &random, unsigned steps)
{
    LitmusProgram program(2 + below(random, 2));
    const Shape shape{below(random, 4) == 0, below(random, 2) == 0};
    for (unsigned i = 0; i < steps; ++i) {
        auto &thread = program[i < program.size() ? i : below(random, static_cast<unsigned>(program.size()))];
        thread.push_back(draw(random, i + 1, shape));
    }
    return program;
}

} // namespace stress::order
