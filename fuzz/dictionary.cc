// usage: fuzz-dictionary sizes|sizeclass|text|record FILE
//
// Writes a libFuzzer dictionary, made from the same lists as the code under test: boundary sizes as an op stores them
// (6 bytes) or as fuzz_sizeclass reads them (4 bytes), the words of the text form, or the ids and sizes of a crash
// record.
#include <hakmem/record.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "fuzz/boundary_sizes.h"
#include "program/op_syntax.h"

namespace {

void entry(const std::string &bytes)
{
    std::printf("\"");
    for (const char byte : bytes) {
        const auto c = static_cast<unsigned char>(byte);
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\') std::printf("%c", c);
        else std::printf("\\x%02x", c);
    }
    std::printf("\"\n");
}

std::string bytes_of(std::uint64_t value, std::size_t count)
{
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i & 255);
    return bytes;
}

void print_text()
{
    for (const stress::OpSyntax &syntax : stress::kOpSyntax) entry(std::string(syntax.name) + "(");
    for (const std::string_view how : stress::kRenewHowNames) entry(std::string(how));
    for (const char *word : {"# hakmem ops 1\n",
                             "threads ",
                             "seed ",
                             "schedule seeded\n",
                             "schedule os\n",
                             "check no\n",
                             "strict yes\n",
                             "strict no\n",
                             "laps ",
                             "ops ",
                             "links kept\n",
                             "allocator ",
                             "expect_schedule ",
                             "expect ",
                             "repeat ",
                             "step ",
                             " {\n",
                             "}\n",
                             "b0",
                             "b1 = ",
                             "T1: ",
                             ");\n",
                             ", ",
                             "SIZE_MAX",
                             "SIZE_MAX-",
                             "forever",
                             " link 1",
                             "// ",
                             "0123456789abcdef:1",
                             "\x89HAKOPS\n"})
        entry(word);
}

void print_record()
{
    entry(RECORD_MAGIC);
    entry(bytes_of(RECORD_END, 4));
    for (const int size : {8, 8 * RECORD_PLACE_NUMBERS + 1, 8 * RECORD_GUARD_NUMBERS})
        entry(bytes_of(static_cast<std::uint64_t>(size), 4));
#define X(id, name, type, text) entry(bytes_of(id, 4));
    RECORD_FIELDS(X)
#undef X
}

// False: there is no such dictionary.
bool print(const std::string &what)
{
    if (what == "sizes" || what == "sizeclass") {
        for (const std::size_t size : fuzz::boundary_sizes())
            if (what == "sizes" || size <= UINT32_MAX) entry(bytes_of(size, what == "sizes" ? 6 : 4));
    } else if (what == "text") {
        print_text();
    } else if (what == "record") {
        print_record();
    } else {
        return false;
    }
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 3 && std::freopen(argv[2], "w", stdout) == nullptr) {
        std::fprintf(stderr, "'%s' cannot be written: %s\n", argv[2], std::strerror(errno));
        return 2;
    }
    if (argc != 3 || !print(argv[1])) {
        std::fprintf(stderr, "usage: %s sizes|sizeclass|text|record FILE: name one of these, and the file to write\n",
                     argv[0]);
        return 2;
    }
    return std::fclose(stdout) == 0 ? 0 : 1;
}
