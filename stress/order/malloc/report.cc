#include "order/malloc/report.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace stress::order {
namespace {

constexpr std::size_t kStepsShown = 80;
constexpr const char *kOrders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};

std::string stack_text(const Machine &machine, std::uint32_t stack, const char *indent)
{
    std::string text;
    for (const std::uintptr_t pc : machine.stacks().frames(stack)) text += fmt::format("{}<{:#x}>\n", indent, pc - 1);
    return text.empty() ? fmt::format("{}the scenario's own access to the block\n", indent) : text;
}

std::string touch_text(const Touch &touch)
{
    return fmt::format("{} {} by thread {}", touch.kind.is_atomic ? "atomic" : "plain",
                       touch.kind.is_write ? "write" : "read", touch.event.thread);
}

std::string value_text(Value value, unsigned bytes)
{
    const auto low = static_cast<std::uint64_t>(value);
    return bytes <= 8 ? fmt::format("{:#x}", low)
                      : fmt::format("{:#x}{:016x}", static_cast<std::uint64_t>(value >> 64), low);
}

// Words that several threads use and at least one writes, with a short name each.
std::map<std::uintptr_t, std::string> name_words(const std::vector<Step> &steps)
{
    std::map<std::uintptr_t, std::set<unsigned>> users;
    std::set<std::uintptr_t> written;
    for (const Step &step : steps) {
        if (step.address == 0) continue;
        users[step.address].insert(step.thread);
        if (step.kind != Step::Kind::load) written.insert(step.address);
    }
    std::map<std::uintptr_t, std::string> names;
    for (const Step &step : steps)
        if (step.address != 0 && users[step.address].size() > 1 && written.contains(step.address))
            names.try_emplace(step.address, fmt::format("W{}", names.size() + 1));
    return names;
}

std::string step_text(const Step &step, const std::string &word)
{
    const char *order = kOrders[static_cast<unsigned>(step.order)];
    std::string text;
    switch (step.kind) {
    case Step::Kind::load:
        text = fmt::format("load {} {} = {}", word, order, value_text(step.seen.value, step.bytes));
        break;
    case Step::Kind::store:
        text = fmt::format("store {} {} = {}", word, order, value_text(step.written, step.bytes));
        break;
    case Step::Kind::update:
        text = fmt::format("update {} {}: {} becomes {}", word, order, value_text(step.seen.value, step.bytes),
                           value_text(step.written, step.bytes));
        break;
    case Step::Kind::compare:
        text = step.seen.wrote
                   ? fmt::format("compare-exchange {} {}: {} becomes {}", word, order,
                                 value_text(step.seen.value, step.bytes), value_text(step.written, step.bytes))
                   : fmt::format("compare-exchange {} {} fails on {}", word, order,
                                 value_text(step.seen.value, step.bytes));
        break;
    case Step::Kind::fence: text = fmt::format("fence {}", order); break;
    case Step::Kind::lock: text = "takes mutex " + word; break;
    case Step::Kind::unlock: text = "releases mutex " + word; break;
    case Step::Kind::wait: text = "waits"; break;
    case Step::Kind::note: return step.text;
    }
    const bool reads =
        step.kind == Step::Kind::load || step.kind == Step::Kind::update || step.kind == Step::Kind::compare;
    if (reads)
        text += step.seen.from.number == 0 ? ", from before the run"
                                           : fmt::format(", from {}.{}", step.seen.from.thread, step.seen.from.number);
    if (reads && step.seen.newer > 0)
        text += fmt::format("; {} newer store{}, which do{} not happen before it", step.seen.newer,
                            step.seen.newer == 1 ? "" : "s", step.seen.newer == 1 ? "es" : "");
    if (step.seen.wrote && step.seen.before > 0)
        text += fmt::format("; it goes before {} in modification order", step.seen.before);
    return text;
}

} // namespace

std::string report_run(const Machine &machine, const Machine::Result &result)
{
    std::string text;
    if (result.race) {
        const Race &race = *result.race;
        text += fmt::format("data race (C11 5.1.2.4 p25) at {:#x}: neither happens before the other\n", race.address);
        for (const Touch *touch : {&race.second, &race.first})
            text += fmt::format("  {}:\n{}", touch_text(*touch), stack_text(machine, touch->stack, "    "));
    }
    if (!result.failure.empty()) text += result.failure + "\n";

    const auto names = name_words(machine.steps());
    std::vector<const Step *> shown;
    for (const Step &step : machine.steps())
        if (step.kind == Step::Kind::note || step.kind == Step::Kind::fence || names.contains(step.address))
            shown.push_back(&step);
    const std::size_t first = shown.size() > kStepsShown ? shown.size() - kStepsShown : 0;
    text += fmt::format("interleaving, steps on words that several threads use{} (THREAD.EVENT):\n",
                        first == 0 ? std::string() : fmt::format(", the last {} of {}", kStepsShown, shown.size()));
    for (std::size_t i = first; i < shown.size(); ++i) {
        const Step &step = *shown[i];
        const auto word = names.find(step.address);
        text += fmt::format("  {:6} {}", fmt::format("{}.{}", step.thread, step.event.number),
                            step_text(step, word == names.end() ? "" : word->second));
        const auto frames = machine.stacks().frames(step.stack);
        text += frames.empty() ? "\n" : fmt::format("  <{:#x}>\n", frames[0] - 1);
    }
    for (const auto &[address, name] : names) {
        const bool is_shown = std::any_of(shown.begin() + static_cast<std::ptrdiff_t>(first), shown.end(),
                                          [&](const Step *step) { return step->address == address; });
        if (is_shown) text += fmt::format("  {} is {:#x}\n", name, address);
    }
    return text;
}

namespace {

std::string name_of(std::uintptr_t pc)
{
    Dl_info info;
    if (dladdr(reinterpret_cast<void *>(pc), &info) == 0) return fmt::format("{:#x}", pc);
    const std::uintptr_t offset = pc - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    const std::string command = fmt::format("addr2line -C -f -s -i -e '{}' {:#x} 2>/dev/null", info.dli_fname, offset);
    std::string function, line, caller; // the innermost; that of the function which it is inlined in, if any
    if (FILE *output = popen(command.c_str(), "r")) {
        char text[512];
        for (unsigned i = 0; std::fgets(text, sizeof text, output) != nullptr; ++i) {
            std::string &to = i == 0 ? function : i == 1 ? line : caller;
            if (i < 2 || i % 2 == 0) to = text;
        }
        pclose(output);
    }
    for (std::string *each : {&function, &line, &caller}) std::erase(*each, '\n');
    if (function.empty() || function == "??")
        return fmt::format("{}+{:#x}", info.dli_sname == nullptr ? info.dli_fname : info.dli_sname, offset);
    return function + " " + line.substr(0, line.find(' ')) + (caller.empty() ? "" : ", inlined in " + caller);
}

} // namespace

std::string report_with_names(const std::string &text)
{
    std::map<std::uintptr_t, std::string> names;
    std::string named;
    std::size_t at = 0;
    for (std::size_t open = text.find("<0x"); open != std::string::npos; open = text.find("<0x", at)) {
        const std::size_t close = text.find('>', open);
        if (close == std::string::npos) break;
        const std::uintptr_t pc = std::stoull(text.substr(open + 1, close - open - 1), nullptr, 16);
        auto [found, is_new] = names.try_emplace(pc);
        if (is_new) found->second = name_of(pc);
        named += text.substr(at, open - at) + found->second;
        at = close + 1;
    }
    return named + text.substr(at);
}

} // namespace stress::order
