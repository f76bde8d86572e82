#include "fuzz/op_input_text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "program/op_text.h"

namespace fuzz {
namespace {

constexpr std::string_view kStops = "stops at ", kFor = " for ", kOps = " ops";

std::string stop_text(OpStop stop)
{
    return "# " + std::string(kStops) + std::to_string(stop.point) + std::string(kFor) + std::to_string(stop.ops) +
           std::string(kOps);
}

// Takes a number from 1 to `max` off the start of `text`, with the text behind it.
bool take_number(std::string_view &text, unsigned max, std::string_view behind, std::uint8_t &value)
{
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 1 || number > max) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with(behind)) return false;
    text.remove_prefix(behind.size());
    value = static_cast<std::uint8_t>(number);
    return true;
}

// Reads the stops from the comments of a text that has already been parsed, so only the comments can have faults. It
// looks for the ends of ops: a ';', or the '{' of a repeat.
class StopReader {
  public:
    StopReader(std::string_view text, stress::OpList &ops) : text_(text), ops_(ops) {}

    std::string run()
    {
        std::string fault;
        while (at_ < text_.size() && fault.empty()) {
            const char c = text_[at_];
            if (c == '\n') {
                ++line_;
                on_line_ = false;
                ++at_;
            } else if (c == '#' || text_.substr(at_).starts_with("//")) {
                fault = comment(rest_of_line());
            } else if (is_letter(c)) {
                if (word() == "allocator") rest_of_line();  // its name may contain any characters
            } else {
                if (c == ';' || c == '{') {
                    ++ended_;
                    on_line_ = c == ';';
                }
                ++at_;
            }
        }
        return fault;
    }

  private:
    static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

    std::string_view word()
    {
        const std::size_t from = at_;
        while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
        return text_.substr(from, at_ - from);
    }

    std::string_view rest_of_line()
    {
        const std::size_t from = at_;
        at_ = std::min(text_.find('\n', at_), text_.size());
        return text_.substr(from, at_ - from);
    }

    std::string comment(std::string_view text)
    {
        text.remove_prefix(std::min(text.find_first_not_of("#/ \t"), text.size()));
        text = text.substr(0, text.find_last_not_of(" \t\r") + 1);
        if (!text.starts_with(kStops)) return "";
        text.remove_prefix(kStops.size());
        OpStop stop;
        if (!take_number(text, kOpStopPointMax, kFor, stop.point) ||
            !take_number(text, kOpStopOpsMax, kOps, stop.ops) || !text.empty())
            return fault("a stop is '# stops at POINT for COUNT ops', with a point of 1 to " +
                         std::to_string(kOpStopPointMax) + " and a count of 1 to " + std::to_string(kOpStopOpsMax));
        if (!on_line_) return fault("a stop stands behind an op, in the same line");
        op_set_stop(ops_[ended_ - 1], stop);
        return "";
    }

    std::string fault(const std::string &what) const { return "line " + std::to_string(line_) + ": " + what; }

    std::string_view text_;
    stress::OpList &ops_;
    std::size_t at_ = 0, line_ = 1;
    std::size_t ended_ = 0;  // ops so far, including heads of repeats
    bool on_line_ = false;   // the last thing to end in this line was an op, not a head
};

std::string op_text(Op op)
{
    op.link = 0;
    return stress::op_print(op);
}

// Turns `program`, whose links are stops, into an input.
std::string input_from(const stress::Program &program, const OpShape &shape, OpInput &input)
{
    input = OpInput();
    if (program.threads > shape.threads_max)
        return "it has " + std::to_string(program.threads) + " threads, and this target has at most " +
               std::to_string(shape.threads_max);
    input.threads = static_cast<std::uint8_t>(program.threads);
    std::string note;
    const stress::OpList ops = stress::repeats_expand(program.ops, note);
    if (ops.size() > kOpInputOpsMax)
        return "it has " + std::to_string(ops.size()) + " ops, and an input has at most " +
               std::to_string(kOpInputOpsMax);
    for (const Op &op : ops) {
        if (op.link != 0 && !op_input_stops(op.kind, shape))
            return "no input of this target has a stop in the op " + op_text(op);
        const Op normal = op_input_normalise(op, input.threads, shape);
        if (std::memcmp(&normal, &op, sizeof(Op)) != 0)
            return "no input has the op " + op_text(op) + " (slots are below " + std::to_string(kOpInputSlots) + ")";
        input.ops.push_back(normal);
    }
    return "";
}

// Collects the ops of one input after another.
class Cutter {
  public:
    explicit Cutter(const OpShape &shape) : shape_(shape) { begin(); }

    void add(Op op)
    {
        if (std::ranges::find(op_input_kinds(), op.kind) == op_input_kinds().end()) return;
        if (stress::op_has_slot(op.kind)) {
            const bool begins = stress::op_allocates(op.kind) || op.kind == OpKind::Realloc;
            if (!begins && !slots_.contains(op.slot)) return; // a block of an earlier input
            const auto slot = static_cast<std::uint32_t>(slots_.size());
            op.slot = slots_.try_emplace(op.slot, slot).first->second;
        }
        op.thread = threads_.try_emplace(op.thread, static_cast<std::uint16_t>(threads_.size())).first->second;
        op.thread = static_cast<std::uint16_t>(op.thread % shape_.threads_max);
        op.link = 0;
        input_.threads = std::max(input_.threads, static_cast<std::uint8_t>(op.thread + 1));
        input_.ops.push_back(op_input_normalise(op, shape_.threads_max, shape_));
        if (input_.ops.size() == kOpInputCutOps) end();
    }

    std::vector<OpInput> finish()
    {
        if (!input_.ops.empty()) end();
        return std::move(inputs_);
    }

  private:
    void begin()
    {
        input_ = OpInput();
        slots_.clear();
        threads_.clear();
    }

    void end()
    {
        inputs_.push_back(std::move(input_));
        begin();
    }

    const OpShape &shape_;
    OpInput input_;
    std::map<std::uint32_t, std::uint32_t> slots_; // in the program, and in the input
    std::map<std::uint16_t, std::uint16_t> threads_; // likewise, before they are folded
    std::vector<OpInput> inputs_;
};

static_assert(kOpInputCutOps <= kOpInputSlots, "there is a slot for each op");

}  // namespace

std::vector<OpInput> op_input_cut(const stress::OpList &ops, const OpShape &shape)
{
    Cutter cutter(shape);
    for (const Op &op : ops) cutter.add(op);
    return cutter.finish();
}

stress::Program op_input_program(const OpInput &input)
{
    stress::Program program;
    program.threads = input.threads;
    program.ops.assign(input.ops.begin(), input.ops.end());
    for (Op &op : program.ops) op.link = 0;
    return program;
}

std::string op_input_print(const OpInput &input)
{
    // Printed in one go, because the suite's text is mapped memory. The last lines are the ops, since there are no
    // repeats.
    const stress::Text text = stress::program_print(op_input_program(input));
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    const std::size_t head_lines = lines - input.ops.size();
    std::string out;
    auto from = text.begin();
    for (std::size_t line = 0; line < lines; ++line) {
        const auto end = std::find(from, text.end(), '\n');
        out.append(from, end);
        if (line >= head_lines)
            if (const OpStop stop = op_stop(input.ops[line - head_lines]); stop.point != 0)
                out += "  " + stop_text(stop);
        out += '\n';
        from = end + 1;
    }
    return out;
}

std::string op_input_parse(std::string_view text, const OpShape &shape, OpInput &input)
{
    stress::Program program;
    if (std::string fault = stress::program_parse(text, program); !fault.empty()) return fault;
    for (Op &op : program.ops) op.link = 0;
    if (std::string fault = StopReader(text, program.ops).run(); !fault.empty()) return fault;
    return input_from(program, shape, input);
}

}  // namespace fuzz
