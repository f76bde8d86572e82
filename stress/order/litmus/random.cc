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

// A critical cycle, as diy draws them (Alglave, Maranget, Sarkar, Sewell, Fences in weak memory models, CAV 2010): each
// thread accesses one location, then the next one's, with a seq_cst fence or another step between. Two of these are where
// the weak outcomes of seq_cst are, and free programs rarely have one.
LitmusProgram draw_cycle(std::mt19937_64 &random)
{
    const unsigned count = 2 + below(random, 2);
    const unsigned locations[] = {location("x"), location("y"), location("z")};
    LitmusProgram program(count);
    unsigned stored = 0;
    for (unsigned i = 0; i < count; ++i) {
        auto &thread = program[i];
        auto access = [&](unsigned where) {
            LitmusStep step;
            do step = draw(random, ++stored, {false, true});
            while (step.kind == LITMUS_FENCE);
            step.location = where;
            thread.push_back(step);
        };
        const unsigned here = locations[i], there = locations[(i + 1) % count];
        access(here);
        switch (below(random, 8)) {
        case 0:
        case 1:
        case 2: {
            LitmusStep fence;
            fence.kind = LITMUS_FENCE;
            fence.order = kSerial;
            thread.push_back(fence);
            break;
        }
        case 3: access(below(random, 2) == 0 ? here : there); break;
        case 4: access(locations[below(random, 3)]); break;
        default: break;
        }
        access(there);
    }
    return program;
}

} // namespace

LitmusProgram litmus_random(std::mt19937_64 &random, unsigned steps)
{
    if (below(random, 2) == 0) return draw_cycle(random);
    LitmusProgram program(2 + below(random, 2));
    const Shape shape{below(random, 4) == 0, below(random, 2) == 0};
    for (unsigned i = 0; i < steps; ++i) {
        auto &thread = program[i < program.size() ? i : below(random, static_cast<unsigned>(program.size()))];
        thread.push_back(draw(random, i + 1, shape));
    }
    return program;
}

} // namespace stress::order
