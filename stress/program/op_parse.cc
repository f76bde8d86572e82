#include <algorithm>
#include <bit>
#include <iterator>

#include "program/op_syntax.h"
#include "program/op_text.h"
#include "program/text_reader.h"

namespace stress {
namespace {

class Parser {
  public:
    Parser(std::string_view text, Program &program, std::size_t ops_max)
        : in_(text), program_(program), ops_max_(ops_max)
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
        const bool has_thread = numbered(word, 'T');
        if (has_thread) {
            op.thread = static_cast<std::uint16_t>(in_.number_of(word.substr(1), "the thread", kOpThreadsMax - 1));
            in_.expect(':', "after the thread");
            word = in_.word();
        }
        const bool is_check = word == "check" && in_.take('('); // else it is the setting, unless a thread is named
        if (!has_thread && !is_check && is_setting(word)) {
            if (!program_.ops.empty()) in_.fail("'" + std::string(word) + "' must stand before the first op");
            setting(word);
            return;
        }
        threads_used_ = std::max<std::uint32_t>(threads_used_, op.thread + 1U);
        if (program_.ops.size() == ops_max_) in_.fail("more than " + std::to_string(ops_max_) + " ops; split the file");
        if (is_check) arguments(op, OpKind::Check);
        else if (word == "repeat") repeat(op);
        else call(op, word);
        program_.ops.push_back(op);
    }

    static bool is_setting(std::string_view word)
    {
        static constexpr std::string_view names[] = {"threads", "seed", "schedule", "check",     "strict",
                                                     "laps",    "ops",  "links",    "allocator", "expect_schedule",
                                                     "expect"};
        return std::ranges::find(names, word) != std::end(names);
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
    }

    // Whether the word is this letter and a number, such as b0 or T1, as far as its first digit says.
    static bool numbered(std::string_view word, char letter)
    {
        const std::string_view digits = word.substr(std::min<std::size_t>(word.size(), 1));
        return word.starts_with(letter) && digits.find_first_of("0123456789") == 0;
    }

    std::uint32_t slot_of(std::string_view word)
    {
        return static_cast<std::uint32_t>(in_.number_of(word.substr(1), "the number of a block", kOpSlotsMax - 1));
    }

    void call(Op &op, std::string_view word)
    {
        const bool assigned = numbered(word, 'b');
        if (assigned) {
            op.slot = slot_of(word);
            in_.expect('=', "after the block");
            word = in_.word();
        }
        if (word.empty()) in_.unexpected(assigned ? "a call after '='" : "an op");
        const OpSyntax *found = std::ranges::find(kOpSyntax, word, &OpSyntax::name);
        if (found == std::end(kOpSyntax) || word == "repeat") in_.fail("unknown op '" + Reader::shortened(word) + "'");
        const auto kind = static_cast<OpKind>(found - std::begin(kOpSyntax));
        if (assigned != op_allocates(kind))
            in_.fail(std::string(word) + (assigned ? " gives no block; leave out what is before it"
                                                   : " gives a block; write b0 = before it"));
        in_.expect('(', "after the name");
        arguments(op, kind);
    }

    // What is behind the opening parenthesis, up to the end of the op.
    void arguments(Op &op, OpKind kind)
    {
        op.kind = kind;
        switch (op_syntax(kind).arguments) {
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
    }

    void argument_block(Op &op)
    {
        after_ = "after the block";
        const std::string_view word = in_.word();
        if (word.empty()) in_.unexpected("a block");
        if (!numbered(word, 'b')) in_.fail("expected a block such as b0, found '" + Reader::shortened(word) + "'");
        op.slot = slot_of(word);
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
        const std::string_view *found = std::ranges::find(kRenewHowNames, how);
        if (found == std::end(kRenewHowNames))
            in_.fail("unknown way to end a thread: '" + Reader::shortened(how) + "'");
        op.arg = static_cast<std::uint8_t>(found - std::begin(kRenewHowNames));
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
            set_size(op, in_.number_of(word, "the size", std::min<std::uint64_t>(max, least_huge - 1)));
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
    const std::size_t ops_max_;
    std::vector<std::size_t, MappedAllocator<std::size_t>> open_;  // repeats whose body is not closed yet
    const char *after_ = "";  // the token that precedes the closing parenthesis
    std::uint32_t threads_used_ = 0;
    bool threads_given_ = false;
};

}  // namespace

std::string program_parse(std::string_view text, Program &program, std::size_t ops_max)
{
    try {
        program = Program();
        Parser(text, program, ops_max).run();
        if (!program.links_kept) return "";
        return links_fault(program.ops, program.threads);
    } catch (const Fault &fault) {
        return fault.text;
    }
}

}  // namespace stress
