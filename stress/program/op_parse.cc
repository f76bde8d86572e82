#include <algorithm>
#include <bit>

#include "program/op_syntax.h"
#include "program/op_text.h"
#include "program/text_reader.h"

namespace stress {
namespace {

class Parser {
  public:
    Parser(std::string_view text, Program &program) : in_(text), program_(program)
    {
        if (!text.starts_with(kTextHead)) return;
        const std::string_view version = text.substr(kTextHead.size(), 1);
        const std::string_view after = text.substr(kTextHead.size() + version.size(), 1);
        if (version != std::to_string(kTextVersion) || (!after.empty() && is_word(after[0])))
            in_.fail("this is not version " + std::to_string(kTextVersion) +
                     " of the format; use the program that wrote it");
    }

    void run()
    {
        while (!in_.at_end()) statement();
        if (!open_.empty()) in_.unexpected("'}' after the body of repeat");
        finish();
    }

  private:
    void statement()
    {
        if (!open_.empty() && in_.take('}')) {
            program_.ops[open_.back()].slot = static_cast<std::uint32_t>(program_.ops.size() - open_.back() - 1);
            open_.pop_back();
            return;
        }
        std::string_view word = in_.word();
        Op op{};
        if (word.size() > 1 && word[0] == 'T' && word[1] >= '0' && word[1] <= '9') {
            op.thread = static_cast<std::uint16_t>(in_.number_of(word.substr(1), "the thread", kOpThreadsMax - 1));
            in_.expect(':', "after the thread");
            word = in_.word();
        } else if (in_first_part(word)) {
            return;
        }
        threads_used_ = std::max<std::uint32_t>(threads_used_, op.thread + 1U);
        if (program_.ops.size() == kProgramOpsMax)
            in_.fail("more than " + std::to_string(kProgramOpsMax) + " ops; split the file");
        if (word == "repeat") repeat(op);
        else call(op, word);
    }

    // Returns whether the word was a setting.
    bool in_first_part(std::string_view word)
    {
        static constexpr std::string_view names[] = {"threads", "seed", "schedule", "check",     "strict",
                                                     "laps",    "ops",  "links",    "allocator", "expect_schedule",
                                                     "expect"};
        for (std::string_view name : names) {
            if (word != name) continue;
            if (word == "check" && in_.take('(')) {
                Op op{};
                block(op, OpKind::Check);
                return true;
            }
            if (!program_.ops.empty()) in_.fail("'" + std::string(word) + "' must stand before the first op");
            setting(word);
            return true;
        }
        return false;
    }

    bool choice(const char *yes, const char *no)
    {
        const std::string_view word = in_.word();
        if (word == yes) return true;
        if (word == no) return false;
        in_.fail(std::string("expected ") + yes + " or " + no + ", found '" + Reader::shortened(word) + "'");
    }

    void setting(std::string_view name)
    {
        if (name == "threads") {
            program_.threads = static_cast<std::uint32_t>(in_.number("a number of threads", kOpThreadsMax));
            if (program_.threads == 0) in_.fail("threads must be 1 or more");
            threads_given_ = true;
        } else if (name == "seed") program_.seed = in_.number("the seed", UINT64_MAX);
        else if (name == "schedule") program_.schedule = choice("seeded", "os") ? Schedule::Seeded : Schedule::Os;
        else if (name == "check") program_.check = choice("yes", "no");
        else if (name == "strict") program_.strict = choice("yes", "no");
        else if (name == "laps") {
            program_.laps = static_cast<std::uint32_t>(in_.number("the number of laps", 1000));
            if (program_.laps == 0) in_.fail("laps must be 1 or more");
        } else if (name == "ops") program_.ops_limit = in_.number("the number of ops", kProgramOpsLimitMax);
        else if (name == "links") {
            if (in_.word() != "kept") in_.fail("expected 'kept' after 'links'");
            program_.links_kept = true;
        } else if (name == "expect") program_.rule = rule_name();
        else whole_line(name);
    }

    std::string rule_name()
    {
        const std::string_view word = in_.word();
        if (word.empty()) in_.unexpected("the name of a rule");
        if (word.size() > 60) in_.fail("the name of a rule is too long: '" + Reader::shortened(word) + "'");
        return std::string(word);
    }

    // Settings whose value is the rest of the line.
    void whole_line(std::string_view name)
    {
        std::string_view value = in_.rest_of_line();
        while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
        while (!value.empty() && (value.back() == ' ' || value.back() == '\t' || value.back() == '\r'))
            value.remove_suffix(1);
        if (name == "allocator") {
            if (value.empty() || value.size() > 4000) in_.fail("expected the name of the allocator");
            for (const char c : value)
                if (static_cast<unsigned char>(c) < ' ') in_.fail("the name of the allocator has control characters");
            program_.allocator = value;
        } else if (value.size() > 60 || !schedule_parse(std::string(value), program_.expected)) {
            in_.fail("expected HASH:CLOCK, 16 hexadecimal digits and a number, found '" + Reader::shortened(value) +
                     "'");
        }
    }

    void repeat(Op &op)
    {
        op.kind = OpKind::Repeat;
        set_size(op, in_.number("the number of rounds", op_size_max(OpKind::Repeat)));
        if (in_.word() != "step") in_.fail("expected 'step' after the number of rounds");
        op.arg = static_cast<std::uint8_t>(in_.number("the step", 255));
        in_.expect('{', "after the step");
        open_.push_back(program_.ops.size());
        program_.ops.push_back(op);
    }

    static bool slot_word(std::string_view word)
    {
        return word.size() > 1 && word[0] == 'b' && word[1] >= '0' && word[1] <= '9';
    }

    std::uint32_t slot_of(std::string_view word)
    {
        return static_cast<std::uint32_t>(in_.number_of(word.substr(1), "the number of a block", kOpSlotsMax - 1));
    }

    void call(Op &op, std::string_view word)
    {
        const bool assigned = slot_word(word);
        if (assigned) {
            op.slot = slot_of(word);
            in_.expect('=', "after the block");
            word = in_.word();
        }
        if (word.empty()) in_.unexpected(assigned ? "a call after '='" : "an op");
        std::size_t kind = 0;
        while (kind < kOpKindCount && (kOpSyntax[kind].name != word || kOpSyntax[kind].name == "repeat")) ++kind;
        if (kind == kOpKindCount) in_.fail("unknown op '" + Reader::shortened(word) + "'");
        op.kind = static_cast<OpKind>(kind);
        if (assigned != op_allocates(op.kind))
            in_.fail(std::string(word) + (assigned ? " gives no block; leave out what is before it"
                                                   : " gives a block; write b0 = before it"));
        in_.expect('(', "after the name");
        arguments(op);
        end(op);
    }

    void block(Op &op, OpKind kind)
    {
        op.kind = kind;
        threads_used_ = std::max<std::uint32_t>(threads_used_, 1);
        argument_block(op);
        end(op);
    }

    void end(Op &op)
    {
        in_.expect(')', after_);
        const std::string_view word = in_.word();
        if (word == "link") {
            op.link = static_cast<std::uint16_t>(in_.number("the link", 0xffff));
            if (op.link == 0 || !op_has_slot(op.kind)) in_.fail("a link counts from 1, on an op with a block");
            if (!program_.links_kept) in_.fail("a link needs the line 'links kept' before the first op");
        } else if (!word.empty()) {
            in_.fail("expected ';' after the op, found '" + Reader::shortened(word) + "'");
        }
        in_.expect(';', "after the op");
        program_.ops.push_back(op);
    }

    void arguments(Op &op)
    {
        switch (op_syntax(op.kind).arguments) {
        case OpArguments::None:
        case OpArguments::Repeat: after_ = "after '('"; break;
        case OpArguments::Size:
        case OpArguments::Count: size(op); break;
        case OpArguments::Block: argument_block(op); break;
        case OpArguments::BlockSize: same_block(op), size(op); break;
        case OpArguments::CountSize: count(op), size(op); break;
        case OpArguments::BlockCountSize: same_block(op), count(op), size(op); break;
        case OpArguments::AlignSize: align(op), size(op); break;
        case OpArguments::Fork: count(op), size(op); break;
        case OpArguments::Renew: renew(op); break;
        case OpArguments::Fail: fail_os(op); break;
        }
    }

    void argument_block(Op &op)
    {
        const std::string_view word = in_.word();
        if (word.empty()) in_.unexpected("a block");
        if (!slot_word(word)) in_.fail("expected a block such as b0, found '" + Reader::shortened(word) + "'");
        op.slot = slot_of(word);
        after_ = "after the block";
    }

    void same_block(Op &op)
    {
        const std::uint32_t left = op.slot;
        argument_block(op);
        if (op.slot != left)
            in_.fail("expected b" + std::to_string(left) + ", the block on the left, found b" +
                     std::to_string(op.slot));
        in_.expect(',', "after the block");
    }

    void count(Op &op)
    {
        op.arg = static_cast<std::uint8_t>(in_.number("the count", 255));
        in_.expect(',', "after the count");
    }

    void align(Op &op)
    {
        const std::uint64_t bytes = in_.number("the alignment", std::uint64_t{1} << kOpAlignLog2Max);
        if (!std::has_single_bit(bytes)) in_.fail("an alignment is a power of two, not " + std::to_string(bytes));
        op.arg = static_cast<std::uint8_t>(std::countr_zero(bytes));
        in_.expect(',', "after the alignment");
    }

    void renew(Op &op)
    {
        const std::string_view how = in_.word();
        while (op.arg < kRenewHowCount && kRenewHowNames[op.arg] != how) ++op.arg;
        if (op.arg == kRenewHowCount) in_.fail("unknown way to end a thread: '" + Reader::shortened(how) + "'");
        in_.expect(',', "after the way");
        size(op);
    }

    void fail_os(Op &op)
    {
        size(op);
        if (!in_.take(',')) return;
        if (in_.word() != "forever") in_.fail("expected 'forever' after ','");
        op.arg = 1;
        after_ = "after 'forever'";
    }

    void size(Op &op)
    {
        constexpr std::uint64_t least_huge = std::uint64_t{1} << 47, mask = least_huge * 2 - 1;
        const std::string_view word = in_.word();
        after_ = "after the size";
        if (word.empty()) in_.unexpected("a size");
        const std::size_t max = op_size_max(op.kind);
        if (word != "SIZE_MAX" || max != SIZE_MAX) {
            set_size(op, in_.number_of(word, "the size", max < least_huge ? max : least_huge - 1));
            return;
        }
        const std::uint64_t less = in_.take('-') ? in_.number("the number after SIZE_MAX-", least_huge - 1) : 0;
        op.size48 = (SIZE_MAX - less) & mask;
    }

    static void set_size(Op &op, std::uint64_t size) { op.size48 = size & 0xffff'ffff'ffffULL; }

    void finish()
    {
        if (!threads_given_) program_.threads = std::max(1U, threads_used_);
        if (threads_used_ > program_.threads)
            throw Fault{"thread T" + std::to_string(threads_used_ - 1) + " is used, but the file says threads " +
                        std::to_string(program_.threads)};
    }

    Reader in_;
    Program &program_;
    std::vector<std::size_t, MappedAllocator<std::size_t>> open_;  // repeats whose body is not closed yet
    const char *after_ = "";  // the token that precedes the closing parenthesis
    std::uint32_t threads_used_ = 0;
    bool threads_given_ = false;
};

}  // namespace

std::string program_parse(std::string_view text, Program &program)
{
    try {
        program = Program();
        Parser(text, program).run();
        if (!program.links_kept) return "";
        return links_fault(program.ops, program.threads);
    } catch (const Fault &fault) {
        return fault.text;
    }
}

}  // namespace stress
