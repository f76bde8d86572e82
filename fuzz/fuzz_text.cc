// fuzz_text: the code that reads sequences of operations from files. Takes any bytes as a text, as a binary file, as a
// binary file whose checksum is made to fit, and as ops (program_decode_bytes). Each must be refused in one line, or be
// a program that prints and encodes to bytes which read back as the same program.
#include <bit>
#include <cstdint>
#include <cstring>

#include "fuzz/find.h"
#include "program/op_text.h"
#include "program/program_file.h"

namespace {

using stress::Op;
using stress::Program;
using stress::Text;

constexpr std::size_t kHeaderBytes = 64, kSumAt = 56;
constexpr unsigned char kMagic[8] = {0x89, 'H', 'A', 'K', 'O', 'P', 'S', '\n'};

bool same(const Program &a, const Program &b)
{
    return a.threads == b.threads && a.seed == b.seed && a.schedule == b.schedule && a.check == b.check &&
           a.strict == b.strict && a.laps == b.laps && a.ops_limit == b.ops_limit && a.links_kept == b.links_kept &&
           a.expected == b.expected && a.rule == b.rule && a.allocator == b.allocator && a.ops.size() == b.ops.size() &&
           (a.ops.empty() || std::memcmp(a.ops.data(), b.ops.data(), a.ops.size() * sizeof(Op)) == 0);
}

stress::Bytes bytes_of(const Text &text)
{
    return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
}

void check_fault(const std::string &fault)
{
    const bool plain = fault.find_first_of("\n\r\x1b") == std::string::npos && fault.size() < 400;
    fuzz::must_hold(plain, "fault_is_one_line", std::to_string(fault.size()) + " bytes: " + fault);
}

// Whether a text can hold the names: the format gives a rule one word, and an allocator one line.
bool prints(const Program &program)
{
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    for (const char c : program.rule)
        if (!is_word(c)) return false;
    const std::string &name = program.allocator;
    if (program.rule.size() > 60 || name.size() > 4000 || name.find('\n') != std::string::npos) return false;
    return name.empty() ||
           (std::strchr(" \t", name.front()) == nullptr && std::strchr(" \t\r", name.back()) == nullptr);
}

// What every program must do, wherever it came from.
void check_program(const Program &program)
{
    Program again;
    const Text binary = stress::program_encode(program);
    std::string fault = stress::program_decode(bytes_of(binary), again);
    fuzz::must_hold(fault.empty(), "encoded_reads", fault);
    fuzz::must_hold(same(program, again), "encoded_reads_the_same", "");
    if (!prints(program)) return;
    const Text text = stress::program_print(program);
    fault = stress::program_parse({text.data(), text.size()}, again);
    fuzz::must_hold(fault.empty(), "printed_parses", fault);
    fuzz::must_hold(same(program, again), "printed_parses_the_same", std::string(text.data(), text.size()));
}

// Sets the checksum as program_file.h defines it, computed byte by byte.
void make_sum_fit(Text &file)
{
    std::uint64_t sum = 0xcbf29ce484222325ULL, word = 0;
    for (std::size_t i = 0; i < kSumAt + 8; ++i) file[i] = i < kSumAt ? file[i] : '\0';
    const auto add = [&sum, &word] {
        sum = (std::rotl(sum, 29) ^ word) * 0x9e3779b97f4a7c15ULL;
        word = 0;
    };
    for (std::size_t i = 0; i < file.size(); ++i) {
        word |= std::uint64_t{static_cast<unsigned char>(file[i])} << i % 8 * 8;
        if (i % 8 == 7 || i + 1 == file.size()) add();
    }
    sum ^= sum >> 32;
    for (std::size_t i = 0; i < 8; ++i) file[kSumAt + i] = static_cast<char>(sum >> 8 * i & 255);
}

void check_binary(stress::Bytes bytes)
{
    Program program;
    const std::string fault = stress::program_decode(bytes, program);
    if (!fault.empty()) check_fault(fault);
    else check_program(program);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    Program program;
    // Complete and incomplete lines. Nothing may be read behind the last byte, so the text is a block of its own.
    const std::vector<char> text(data, data + size);
    const std::string fault = stress::program_parse({text.data(), text.size()}, program);
    if (fault.empty()) check_program(program);
    else check_fault(fault);
    check_program(stress::program_decode_bytes({data, size}));
    if (size < sizeof kMagic || std::memcmp(data, kMagic, sizeof kMagic) != 0) return 0;
    check_binary({data, size});
    if (size < kHeaderBytes) return 0;
    Text file(data, data + size);
    make_sum_fit(file);
    check_binary(bytes_of(file));
    return 0;
}
