#include "program/program_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "engine/base/file.h"
#include "program/trace_file.h"

namespace stress {
namespace {

static_assert(std::endian::native == std::endian::little, "ops are copied as they lie in memory");

constexpr unsigned char kMagic[8] = {0x89, 'H', 'A', 'K', 'O', 'P', 'S', '\n'};
constexpr std::uint8_t kVersion = 1;

enum : std::uint16_t { kSeeded = 1, kCheck = 2, kStrictGiven = 4, kStrict = 8, kLinksKept = 16 };

struct Header {
    unsigned char magic[8];
    std::uint8_t version, kind_count;
    std::uint16_t flags, threads, laps;
    std::uint32_t op_count;
    std::uint16_t names_bytes, reserved;
    std::uint64_t seed, schedule_hash, clock, ops_limit, checksum;
};
static_assert(sizeof(Header) == 64);

// Checksum of the header, with its checksum field as 0, and of the rest. Takes eight bytes at a time, since a file may
// have millions of ops.
std::uint64_t checksum(Header header, Bytes rest)
{
    header.checksum = 0;
    std::uint64_t sum = 0xcbf29ce484222325ULL;
    const auto add = [&sum](const unsigned char *at, std::size_t count) {
        for (std::size_t now = 0; count > 0; at += now, count -= now) {
            now = std::min<std::size_t>(count, 8);
            std::uint64_t word = 0;
            std::memcpy(&word, at, now);
            sum = (std::rotl(sum, 29) ^ word) * 0x9e3779b97f4a7c15ULL;
        }
    };
    add(reinterpret_cast<const unsigned char *>(&header), sizeof header);
    add(rest.data(), rest.size());
    return sum ^ (sum >> 32);
}

bool has_magic(Bytes bytes)
{
    return bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0;
}

// Reads the settings; values out of range are folded into range.
void settings_from(const Header &header, Program &program)
{
    program.threads = (header.threads - 1U) % kOpThreadsMax + 1;
    program.laps = (header.laps - 1U) % 1000 + 1;
    program.seed = header.seed;
    program.schedule = (header.flags & kSeeded) != 0 ? Schedule::Seeded : Schedule::Os;
    program.check = (header.flags & kCheck) != 0;
    if ((header.flags & kStrictGiven) != 0) program.strict = (header.flags & kStrict) != 0;
    program.links_kept = (header.flags & kLinksKept) != 0;
    program.ops_limit = header.ops_limit % (kProgramOpsLimitMax + 1);
    program.expected = {header.schedule_hash, header.clock};
}

// Reads the ops, and their links if they are kept. False: some op was out of range.
bool ops_from(Bytes bytes, std::size_t kind_count, Program &program)
{
    const std::size_t count = bytes.size() / sizeof(Op);
    bool in_range = true;
    program.ops.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        Op raw;
        std::memcpy(&raw, bytes.data() + i * sizeof(Op), sizeof(Op));
        Op op = op_normalise(raw, kind_count);
        op.thread = static_cast<std::uint16_t>(op.thread % program.threads);
        if (program.links_kept && op_has_slot(op.kind)) op.link = raw.link;
        if (std::memcmp(&op, &raw, sizeof(Op)) != 0) in_range = false;
        program.ops[i] = op;
    }
    return in_range;
}

std::string header_fault(const Header &header, Bytes rest)
{
    if (header.version != kVersion)
        return "is of version " + std::to_string(header.version) + ", and this program reads version " +
               std::to_string(kVersion);
    const std::uint64_t wanted = header.names_bytes + std::uint64_t{header.op_count} * sizeof(Op);
    if (rest.size() != wanted)
        return std::string(rest.size() < wanted ? "is truncated: " : "has bytes too many: ") +
               std::to_string(rest.size() + sizeof(Header)) + " instead of " + std::to_string(wanted + sizeof(Header));
    if (checksum(header, rest) != header.checksum) return "is corrupt: its checksum does not fit its content";
    if (header.kind_count == 0 || header.kind_count > kOpKindCount)
        return "has " + std::to_string(header.kind_count) + " kinds of op, and this program knows " +
               std::to_string(kOpKindCount) + "; use the program that wrote it";
    if (header.threads == 0 || header.threads > kOpThreadsMax || header.laps == 0 || header.laps > 1000 ||
        header.op_count > kProgramOpsMax || header.ops_limit > kProgramOpsLimitMax)
        return "is corrupt: threads, laps or ops are out of range";
    return "";
}

bool names_from(Bytes bytes, Program &program)
{
    std::string *const names[] = {&program.rule, &program.allocator};
    std::size_t name = 0;
    for (unsigned char c : bytes) {
        if (c == 0) ++name;
        else if (name >= 2 || c < ' ') return false;
        else names[name]->push_back(static_cast<char>(c));
    }
    return name == 2;
}

// Reads the whole file, or says why not.
std::string content_of(const std::string &path, Text &content)
{
    // O_NONBLOCK: does not wait for the writer of a FIFO.
    const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return std::string("cannot be read: ") + std::strerror(errno);
    struct stat status{};
    std::string fault;
    if (fstat(fd, &status) != 0) fault = std::string("cannot be read: ") + std::strerror(errno);
    else if (S_ISDIR(status.st_mode)) fault = "is a directory";
    else if (!S_ISREG(status.st_mode)) fault = "is not an ordinary file";
    else if (status.st_size == 0) fault = "is empty";
    else if (static_cast<std::uint64_t>(status.st_size) > kProgramFileBytesMax)
        fault = "is larger than " + std::to_string(kProgramFileBytesMax >> 20) + " MiB";
    if (fault.empty()) {
        content.resize(static_cast<std::size_t>(status.st_size));
        std::size_t have = 0;
        while (have < content.size()) {
            const ssize_t count = read(fd, content.data() + have, content.size() - have);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) {
                fault =
                    count < 0 ? std::string("cannot be read: ") + std::strerror(errno) : "changed while it was read";
                break;
            }
            have += static_cast<std::size_t>(count);
        }
    }
    close(fd);
    return fault;
}

}  // namespace

Text program_encode(const Program &program, std::size_t kind_count)
{
    const std::string names = program.rule + '\0' + program.allocator + '\0';
    Header header{
        .magic = {},
        .version = kVersion,
        .kind_count = static_cast<std::uint8_t>(kind_count),
        .flags = static_cast<std::uint16_t>(
            (program.schedule == Schedule::Seeded ? kSeeded : 0) | (program.check ? kCheck : 0) |
            (program.strict.has_value() ? kStrictGiven : 0) | (program.strict.value_or(false) ? kStrict : 0) |
            (program.links_kept ? kLinksKept : 0)),
        .threads = static_cast<std::uint16_t>(program.threads),
        .laps = static_cast<std::uint16_t>(program.laps),
        .op_count = static_cast<std::uint32_t>(program.ops.size()),
        .names_bytes = static_cast<std::uint16_t>(names.size()),
        .reserved = 0,
        .seed = program.seed,
        .schedule_hash = program.expected.hash,
        .clock = program.expected.clock,
        .ops_limit = program.ops_limit,
        .checksum = 0,
    };
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    Text out(sizeof header + names.size() + program.ops.size() * sizeof(Op));
    std::memcpy(out.data() + sizeof header, names.data(), names.size());
    if (!program.ops.empty())
        std::memcpy(out.data() + sizeof header + names.size(), program.ops.data(), program.ops.size() * sizeof(Op));
    const auto *bytes = reinterpret_cast<const unsigned char *>(out.data());
    header.checksum = checksum(header, Bytes(bytes, out.size()).subspan(sizeof header));
    std::memcpy(out.data(), &header, sizeof header);
    return out;
}

std::string program_decode(Bytes bytes, Program &program)
{
    program = Program();
    if (bytes.size() < sizeof(Header)) return "is truncated: it has " + std::to_string(bytes.size()) + " bytes";
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    const Bytes rest = bytes.subspan(sizeof header);
    if (std::string fault = header_fault(header, rest); !fault.empty()) return fault;
    settings_from(header, program);
    if (!names_from(rest.first(header.names_bytes), program)) return "is corrupt: its names are garbled";
    if (!ops_from(rest.subspan(header.names_bytes), header.kind_count, program))
        return "is corrupt: an op is out of range";
    const OpList as_read = program.ops;
    repeats_clamp(program.ops);
    for (std::size_t i = 0; i < as_read.size(); ++i)
        if (as_read[i].slot != program.ops[i].slot)
            return "is corrupt: the repeat at op " + std::to_string(i + 1) + " is longer than what follows it";
    if (!program.links_kept) return "";
    const std::string fault = links_fault(program.ops, program.threads);
    return fault.empty() ? "" : "is corrupt: " + fault;
}

Program program_decode_bytes(Bytes bytes)
{
    Program program;
    program.threads = 4;
    std::size_t kind_count = kOpKindCount;
    if (has_magic(bytes) && bytes.size() >= sizeof(Header)) {
        Header header;
        std::memcpy(&header, bytes.data(), sizeof header);
        settings_from(header, program);
        if (header.kind_count > 0 && header.kind_count < kOpKindCount) kind_count = header.kind_count;
        bytes = bytes.subspan(sizeof header);
        bytes = bytes.subspan(std::min<std::size_t>(header.names_bytes, bytes.size()));
    }
    ops_from(bytes, kind_count, program);
    repeats_clamp(program.ops);
    if (program.links_kept && !links_fault(program.ops, program.threads).empty()) {
        program.links_kept = false;
        for (Op &op : program.ops) op.link = 0;
    }
    return program;
}

std::string program_read(const std::string &path, Program &program)
{
    Text content;
    std::string fault = content_of(path, content);
    if (fault.empty()) {
        const Bytes bytes(reinterpret_cast<const unsigned char *>(content.data()), content.size());
        if (trace_begins(content.data(), content.size())) {
            fault = trace_program(path, program);
        } else if (has_magic(bytes)) {
            fault = program_decode(bytes, program);
        } else {
            fault = program_parse({content.data(), content.size()}, program);
            if (!fault.empty()) return "'" + path + "', " + fault;
        }
    }
    return fault.empty() ? "" : "'" + path + "' " + fault + "; name a file of ops, text or binary";
}

std::string program_write(const std::string &path, std::span<const char> content)
{
    return result_write(path, std::string(content.data(), content.size()));
}

}  // namespace stress
