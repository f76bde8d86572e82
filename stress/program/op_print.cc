#include <charconv>

#include "program/op_syntax.h"
#include "program/op_text.h"

namespace stress {
namespace {

struct Printer {
    Text out;

    Printer &operator<<(std::string_view text)
    {
        out.insert(out.end(), text.begin(), text.end());
        return *this;
    }

    Printer &operator<<(std::uint64_t value)
    {
        char digits[24];
        const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
        return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
    }

    Printer &size(std::size_t size_bytes)
    {
        if (size_bytes < SIZE_MAX / 2) return *this << size_bytes;
        *this << "SIZE_MAX";
        return size_bytes == SIZE_MAX ? *this : *this << "-" << SIZE_MAX - size_bytes;
    }
};

void print_arguments(Printer &p, const Op &op)
{
    switch (op_syntax(op.kind).arguments) {
    case OpArguments::None:
    case OpArguments::Repeat: return;
    case OpArguments::Size:
    case OpArguments::Count: p.size(op_size(op)); return;
    case OpArguments::Block: p << "b" << op.slot; return;
    case OpArguments::BlockSize: (p << "b" << op.slot << ", ").size(op_size(op)); return;
    case OpArguments::CountSize:
    case OpArguments::Fork: (p << std::uint64_t{op.arg} << ", ").size(op_size(op)); return;
    case OpArguments::AlignSize: (p << std::uint64_t{op_align(op)} << ", ").size(op_size(op)); return;
    case OpArguments::BlockCountSize:
        (p << "b" << op.slot << ", " << std::uint64_t{op.arg} << ", ").size(op_size(op));
        return;
    case OpArguments::Renew: p << kRenewHowNames[op.arg] << ", " << op_size(op); return;
    case OpArguments::Fail: p << op_size(op) << (op.arg != 0 ? ", forever" : ""); return;
    }
}

void print_op(Printer &p, const Op &op)
{
    if (op.thread != 0) p << "T" << std::uint64_t{op.thread} << ": ";
    if (op.kind == OpKind::Repeat) {
        p << "repeat " << op_size(op) << " step " << std::uint64_t{op.arg} << " {";
        return;
    }
    if (op_allocates(op.kind)) p << "b" << op.slot << " = ";
    p << op_syntax(op.kind).name << "(";
    print_arguments(p, op);
    p << ")";
    if (op.link != 0) p << " link " << std::uint64_t{op.link};
    p << ";";
}

void print_head(Printer &p, const Program &program)
{
    p << kTextHead << std::uint64_t{kTextVersion} << "\nthreads " << std::uint64_t{program.threads} << "\nseed "
      << program.seed << "\nschedule " << (program.schedule == Schedule::Seeded ? "seeded" : "os") << "\n";
    if (!program.check) p << "check no\n";
    if (program.strict.has_value()) p << "strict " << (*program.strict ? "yes" : "no") << "\n";
    if (program.laps != 1) p << "laps " << std::uint64_t{program.laps} << "\n";
    if (program.ops_limit != 0) p << "ops " << program.ops_limit << "\n";
    if (program.links_kept) p << "links kept\n";
    if (!program.allocator.empty()) p << "allocator " << program.allocator << "\n";
    if (program.expects_schedule()) p << "expect_schedule " << schedule_text(program.expected) << "\n";
    if (!program.rule.empty()) p << "expect " << program.rule << "\n";
}

}  // namespace

std::string op_print(const Op &op)
{
    Printer p;
    print_op(p, op);
    return {p.out.begin(), p.out.end()};
}

Text program_print(const Program &program)
{
    constexpr std::size_t indent_max = 8;  // ops may nest a million deep
    Printer p;
    print_head(p, program);
    std::vector<std::size_t, MappedAllocator<std::size_t>> ends;  // ends of the open bodies
    const auto indent = [&] {
        for (std::size_t i = 0; i < ends.size() && i < indent_max; ++i) p << "    ";
    };
    for (std::size_t i = 0; i <= program.ops.size(); ++i) {
        while (!ends.empty() && ends.back() == i) {
            ends.pop_back();
            indent();
            p << "}\n";
        }
        if (i == program.ops.size()) break;
        indent();
        print_op(p, program.ops[i]);
        p << "\n";
        if (program.ops[i].kind == OpKind::Repeat) ends.push_back(i + 1 + program.ops[i].slot);
    }
    return std::move(p.out);
}

}  // namespace stress
