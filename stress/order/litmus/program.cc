#include "order/litmus/program.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "order/model/clock.h"

namespace stress::order {
namespace {

constexpr const char *kOrderWords[] = {"rlx", "con", "acq", "rel", "ar", "sc", "na"};

[[noreturn]] void no_step(const std::string &step)
{
    throw std::invalid_argument("'" + step + "' is no step of a litmus test; x=1 rel and x acq are");
}

unsigned order_of(const std::string &word, const std::string &step)
{
    for (unsigned i = 0; i < std::size(kOrderWords); ++i)
        if (word == kOrderWords[i]) return i;
    no_step(step);
}

// "1", "r0", "r0+1" or "r0-1".
void parse_value(const std::string &text, LitmusStep &parsed, const std::string &step)
{
    const char *at = text.c_str();
    char *end = nullptr;
    if (*at == 'r') {
        parsed.from_register = static_cast<int>(std::strtol(at + 1, &end, 10));
        if (end == at + 1 || parsed.from_register < 0) no_step(step);
        if (*end == '\0') return;
        parsed.value = static_cast<litmus_value>(std::strtol(end, &end, 10));
    } else {
        parsed.value = std::strtoull(at, &end, 0);
    }
    if (*end != '\0' || text.empty()) no_step(step);
}

LitmusStep parse_test(std::istringstream &words, const std::string &step)
{
    LitmusStep parsed;
    std::string word;
    words >> word;
    int index = 0;
    unsigned value = 0;
    char how = 0;
    if (std::sscanf(word.c_str(), "r%d%c%u", &index, &how, &value) != 3 || (how != '=' && how != '>')) no_step(step);
    parsed.is_test = true;
    parsed.is_greater = how == '>';
    if (index < 0) no_step(step);
    parsed.from_register = index;
    parsed.expected = value;
    return parsed;
}

// C17 7.17.7: which orders a load, a store and a failure may have. No compare-exchange here has consume.
void check_order(const LitmusStep &parsed, const std::string &step)
{
    constexpr unsigned kConsume = 1, kAcquire = 2, kRelease = 3, kBoth = 4;
    const unsigned order = parsed.order;
    bool is_right = order != LITMUS_PLAIN;
    if (parsed.kind == LITMUS_LOAD) is_right = order != kRelease && order != kBoth;
    if (parsed.kind == LITMUS_STORE) is_right = order != kConsume && order != kAcquire && order != kBoth;
    if (parsed.kind >= LITMUS_COMPARE && parsed.kind != LITMUS_FENCE) {
        is_right &= order != kConsume && parsed.failure != kConsume && parsed.failure != kRelease;
        is_right &= parsed.failure != kBoth && parsed.failure != LITMUS_PLAIN;
    }
    if (!is_right) throw std::invalid_argument("'" + step + "' has an order that C17 7.17.7 does not allow there");
}

LitmusStep parse_step(const std::string &step)
{
    std::istringstream words(step);
    std::string what, order, failure;
    words >> what;
    if (what == "if") return parse_test(words, step);
    words >> order >> failure;
    LitmusStep parsed;
    parsed.order = order_of(order, step);
    if (what == "fence") {
        parsed.kind = LITMUS_FENCE;
        check_order(parsed, step);
        return parsed;
    }
    const std::size_t name_length = what.find_first_of("=+:?~");
    const std::string name = what.substr(0, name_length);
    for (const LitmusLocation &location : litmus_locations()) {
        if (name == location.name) break;
        parsed.location++;
    }
    if (parsed.location == litmus_locations().size()) no_step(step);
    if (name_length == std::string::npos) {
        check_order(parsed, step);
        return parsed;
    }
    std::string rest = what.substr(name_length + 1);
    switch (what[name_length]) {
    case '=': parsed.kind = LITMUS_STORE; break;
    case '+': parsed.kind = LITMUS_ADD; break;
    case ':': parsed.kind = LITMUS_EXCHANGE; break;
    case '?': parsed.kind = LITMUS_COMPARE; break;
    default: parsed.kind = LITMUS_COMPARE_WEAK; break;
    }
    if (parsed.kind == LITMUS_EXCHANGE) rest = rest.substr(1);
    if (parsed.kind >= LITMUS_COMPARE) {
        parsed.failure = order_of(failure, step);
        parsed.expected = std::strtoull(rest.c_str(), nullptr, 0);
        rest = rest.substr(rest.find(':') + 1);
    }
    parse_value(rest, parsed, step);
    check_order(parsed, step);
    return parsed;
}

std::vector<std::string> split(const std::string &text, char separator)
{
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
}

std::string number(litmus_value value)
{
    char text[40];
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(value));
    return text;
}

std::string digit(litmus_value value)
{
    char text[48];
    const auto high = static_cast<unsigned long long>(value >> 64), low = static_cast<unsigned long long>(value);
    if (high != 0) std::snprintf(text, sizeof text, "[%llx%016llx]", high, low);
    else std::snprintf(text, sizeof text, low < 10 ? "%llx" : "[%llx]", low);
    return text;
}

} // namespace

const std::vector<LitmusLocation> &litmus_locations()
{
    static const std::vector<LitmusLocation> all = {
        {"a", 0, 4},    {"b", 16, 4},   {"c", 32, 4},   {"d", 48, 4},   {"x", 64, 4},  {"y", 80, 4},
        {"z", 96, 4},   {"w", 112, 4},  {"h", 128, 2},  {"k", 144, 1},  {"q", 160, 8}, {"q0", 160, 4},
        {"q1", 164, 4}, {"o", 176, 16}, {"o0", 176, 8}, {"o1", 184, 8},
    };
    return all;
}

LitmusProgram litmus_parse(const std::string &text, std::string &error)
{
    constexpr std::size_t kStepsMax = 24; // with the first stores, as many events as axioms.cc can hold
    LitmusProgram program;
    std::size_t steps = 0;
    try {
        for (const std::string &thread : split(text, '|')) {
            program.emplace_back();
            int registers = 0;
            for (const std::string &step : split(thread, ';')) {
                program.back().push_back(parse_step(step));
                const LitmusStep &parsed = program.back().back();
                if (parsed.from_register >= registers)
                    throw std::invalid_argument("'" + step + "' comes before its load");
                registers += parsed.reads();
                steps++;
            }
        }
        if (steps == 0) throw std::invalid_argument("a litmus test has steps, as in 'x=1 rel | x acq'");
        if (program.size() > kThreadsMax || steps > kStepsMax)
            throw std::invalid_argument("a litmus test has at most 16 threads and 24 steps");
    } catch (const std::invalid_argument &bad) {
        error = bad.what();
    }
    return program;
}

std::string litmus_print(const LitmusProgram &program)
{
    std::string text;
    for (const auto &thread : program) {
        if (&thread != program.data()) text += " | ";
        for (const LitmusStep &step : thread) {
            if (&step != thread.data()) text += "; ";
            const std::string order = std::string(" ") + kOrderWords[step.order], failure = kOrderWords[step.failure];
            const std::string name = litmus_locations()[step.location].name;
            std::string value = number(step.value);
            if (step.from_register >= 0)
                value = "r" + std::to_string(step.from_register) + (step.value == 0 ? "" : "+" + value);
            const std::string compared = number(step.expected) + ":" + value + order + " " + failure;
            if (step.is_test) {
                text += "if " + value + (step.is_greater ? ">" : "=") + number(step.expected);
                continue;
            }
            switch (step.kind) {
            case LITMUS_LOAD: text += name + order; break;
            case LITMUS_STORE: text += name + "=" + value + order; break;
            case LITMUS_ADD: text += name + "+" + value + order; break;
            case LITMUS_EXCHANGE: text += name + ":=" + value + order; break;
            case LITMUS_COMPARE: text += name + "?" + compared; break;
            case LITMUS_COMPARE_WEAK: text += name + "~" + compared; break;
            case LITMUS_FENCE: text += "fence" + order; break;
            }
        }
    }
    return text;
}

std::string litmus_outcome(const std::vector<std::vector<litmus_value>> &registers,
                           const std::vector<litmus_value> &last)
{
    std::string text;
    for (const auto &thread : registers)
        for (const litmus_value value : thread) text += digit(value);
    if (!last.empty()) text += "/";
    for (const litmus_value value : last) text += digit(value);
    return text.empty() ? "-" : text;
}

std::vector<unsigned> litmus_finals(const LitmusProgram &program)
{
    std::vector<unsigned> stores(litmus_locations().size()), finals;
    for (const auto &thread : program)
        for (const LitmusStep &step : thread)
            if (!step.is_test && step.kind != LITMUS_LOAD && step.kind != LITMUS_FENCE) stores[step.location]++;
    for (unsigned i = 0; i < stores.size(); ++i)
        if (stores[i] > 1) finals.push_back(i);
    return finals;
}

} // namespace stress::order
