#include "program/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "engine/base/file.h"

namespace stress {
namespace {

constexpr unsigned char kMagic[8] = {0x89, 'H', 'A', 'K', 'O', 'P', 'S', '\n'};

struct Header {
    unsigned char magic[8];
    std::uint8_t version, kind_count;
    std::uint16_t threads;
    std::uint32_t slots;
    std::uint64_t ops, blocks, bytes, peak_live_bytes, reserved, checksum;
};
static_assert(sizeof(Header) == 64);

struct FrameHead {
    std::uint32_t ops, bytes;
};

// A compressed frame is never longer than its ops by much.
constexpr std::size_t kFrameBytes = kTraceFrameOps * sizeof(Op),
                      kPackedBytesMax = kFrameBytes + kFrameBytes / 128 + 512;

std::uint64_t checksum(Header header)
{
    header.checksum = 0;
    std::uint64_t sum = 0xcbf29ce484222325ULL;
    const auto *at = reinterpret_cast<const unsigned char *>(&header);
    for (std::size_t i = 0; i < sizeof header; ++i) sum = (sum ^ at[i]) * 0x100000001b3ULL;
    return sum;
}

void to_planes(const Op *ops, std::size_t count, char *planes)
{
    const auto *bytes = reinterpret_cast<const char *>(ops);
    for (std::size_t plane = 0; plane < sizeof(Op); ++plane)
        for (std::size_t i = 0; i < count; ++i) planes[plane * count + i] = bytes[i * sizeof(Op) + plane];
}

void from_planes(const char *planes, std::size_t count, Op *ops)
{
    auto *bytes = reinterpret_cast<char *>(ops);
    for (std::size_t plane = 0; plane < sizeof(Op); ++plane)
        for (std::size_t i = 0; i < count; ++i) bytes[i * sizeof(Op) + plane] = planes[plane * count + i];
}

bool read_at(int fd, std::uint64_t at, void *start, std::size_t size_bytes)
{
    for (std::size_t done = 0; done < size_bytes;) {
        const ssize_t count =
            pread(fd, static_cast<char *>(start) + done, size_bytes - done, static_cast<off_t>(at + done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        done += static_cast<std::size_t>(count);
    }
    return true;
}

std::string header_fault(const Header &header)
{
    if (header.version != kTraceVersion) return "is not a trace of version " + std::to_string(kTraceVersion);
    if (checksum(header) != header.checksum) return "is corrupt: its checksum does not fit its head";
    if (header.kind_count == 0 || header.kind_count > kOpKindCount)
        return "has " + std::to_string(header.kind_count) + " kinds of op, and this program knows " +
               std::to_string(kOpKindCount) + "; use the program that wrote it";
    if (header.threads == 0 || header.threads > kOpThreadsMax || header.slots == 0 || header.slots > kTraceSlotsMax ||
        header.ops > kTraceOpsMax || header.slots > header.ops + 1)
        return "is corrupt: threads, slots or ops are out of range";
    if (!compress_available())
        return "is a trace, and this build has no libzstd; install libzstd-dev, and configure and build again";
    return "";
}

// Holds ops to the law of a trace.
class Check {
  public:
    explicit Check(const TraceFigures &figures) : figures_(figures), slots_(figures.slots) {}

    const char *fault(const Op &op)
    {
        if (static_cast<std::size_t>(op.kind) >= kOpKindCount || op.kind == OpKind::Repeat) return "has no such kind";
        if (op.thread >= figures_.threads) return "names a thread that the head does not have";
        Op plain = op_normalise(op);
        plain.link = op.link;
        if (op_has_slot(op.kind)) plain.slot = op.slot;
        if (std::memcmp(&plain, &op, sizeof op) != 0) return "is out of range";
        if (!op_has_slot(op.kind)) return op.link != 0 ? "has a link and no slot" : nullptr;
        if (op.slot >= figures_.slots) return "names a slot that the head does not have";
        Slot &slot = slots_[op.slot];
        if (op.link != 0 && op.link != link_next(slot.turn)) return "has no turn";
        if (slot.used && slot.thread != op.thread && (!slot.linked || op.link == 0))
            return "changes the thread of its slot without a link";
        const std::uint16_t turn = op.link != 0 ? static_cast<std::uint16_t>(op.link) : slot.turn;
        slot = {op.thread, turn, true, op.link != 0};
        return nullptr;
    }

  private:
    struct Slot {
        std::uint16_t thread, turn; // of the last op; the last link that was done
        bool used, linked;
    };

    const TraceFigures &figures_;
    Mapped<Slot> slots_;
};

} // namespace

TraceWriter::TraceWriter(const TraceFigures &figures, int level) : level_(level)
{
    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kTraceVersion;
    header.kind_count = kOpKindCount;
    header.threads = static_cast<std::uint16_t>(figures.threads);
    header.slots = figures.slots;
    header.ops = figures.ops;
    header.blocks = figures.blocks;
    header.bytes = figures.bytes;
    header.peak_live_bytes = figures.peak_live_bytes;
    header.checksum = checksum(header);
    content_.assign(reinterpret_cast<const char *>(&header), sizeof header);
    frame_.reserve(kTraceFrameOps);
}

void TraceWriter::flush_frame()
{
    planes_.resize(frame_.size() * sizeof(Op));
    to_planes(frame_.data(), frame_.size(), planes_.data());
    const std::size_t at = content_.size();
    content_.resize(at + sizeof(FrameHead));
    compress_append(content_, planes_, level_);
    const FrameHead head{static_cast<std::uint32_t>(frame_.size()),
                         static_cast<std::uint32_t>(content_.size() - at - sizeof(FrameHead))};
    std::memcpy(&content_[at], &head, sizeof head);
    frame_.clear();
}

void TraceWriter::add(const Op &op)
{
    frame_.push_back(op);
    if (frame_.size() == kTraceFrameOps) flush_frame();
}

std::string TraceWriter::write(const std::string &path)
{
    if (!frame_.empty()) flush_frame();
    return result_write(path, content_);
}

TraceReader::TraceReader(const std::string &path, std::string &fault)
    : fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)), packed_(kPackedBytesMax), planes_(kFrameBytes)
{
    struct stat status{};
    Header header{};
    if (fd_ < 0 || fstat(fd_, &status) != 0) fault = std::string("cannot be read: ") + std::strerror(errno);
    else if (!read_at(fd_, 0, &header, sizeof header)) fault = "is truncated: it has no head";
    else fault = header_fault(header);
    if (!fault.empty()) return;
    figures_ = {header.threads, header.slots, header.ops, header.blocks, header.bytes, header.peak_live_bytes};
    fault = walk(static_cast<std::uint64_t>(status.st_size));
    at_ = sizeof(Header);
}

TraceReader::~TraceReader()
{
    close(fd_); // -1 is refused
}

// From frame to frame, without reading what is in them.
std::string TraceReader::walk(std::uint64_t size_bytes)
{
    std::uint64_t ops = 0;
    for (at_ = sizeof(Header); at_ < size_bytes;) {
        FrameHead head{};
        if (!read_at(fd_, at_, &head, sizeof head)) return "is truncated within a frame";
        if (head.ops == 0 || head.ops > kTraceFrameOps || head.bytes > kPackedBytesMax)
            return "is corrupt: a frame is out of range";
        at_ += sizeof head + head.bytes;
        ops += head.ops;
    }
    if (at_ > size_bytes) return "is truncated within a frame";
    if (ops != figures_.ops)
        return std::string(ops < figures_.ops ? "is truncated: " : "has ops too many: ") + std::to_string(ops) +
               " ops instead of " + std::to_string(figures_.ops);
    end_ = size_bytes;
    return "";
}

bool TraceReader::next(Op *out, std::size_t &count)
{
    count = 0;
    if (at_ >= end_) return true;
    FrameHead head{};
    if (!read_at(fd_, at_, &head, sizeof head) || head.ops > kTraceFrameOps || head.bytes > kPackedBytesMax ||
        !read_at(fd_, at_ + sizeof head, packed_.begin(), head.bytes))
        return false;
    at_ += sizeof head + head.bytes;
    if (!decompressor_.into({planes_.begin(), head.ops * sizeof(Op)}, {packed_.begin(), head.bytes})) return false;
    from_planes(planes_.begin(), head.ops, out);
    count = head.ops;
    return true;
}

bool trace_begins(const void *start, std::size_t size_bytes)
{
    return size_bytes > sizeof kMagic && std::memcmp(start, kMagic, sizeof kMagic) == 0 &&
           static_cast<const unsigned char *>(start)[offsetof(Header, version)] == kTraceVersion;
}

bool trace_is(const std::string &path)
{
    unsigned char start[16];
    const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    const bool is = read_at(fd, 0, start, sizeof start) && trace_begins(start, sizeof start);
    close(fd);
    return is;
}

std::string trace_check(const std::string &path, TraceFigures &figures, void (*each)(void *to, const Op &op), void *to)
{
    std::string fault;
    TraceReader reader(path, fault);
    if (!fault.empty()) return fault;
    figures = reader.figures();
    Check check(figures);
    Mapped<Op> ops(kTraceFrameOps);
    std::uint64_t number = 0;
    for (std::size_t count = 0;;) {
        if (!reader.next(ops.begin(), count)) return "is corrupt: a frame cannot be decompressed";
        if (count == 0) return "";
        for (std::size_t i = 0; i < count; ++i) {
            ++number;
            if (const char *wrong = check.fault(ops[i]); wrong != nullptr)
                return "is corrupt: op " + std::to_string(number) + " " + wrong;
            if (each != nullptr) each(to, ops[i]);
        }
    }
}

std::string trace_program(const std::string &path, Program &program)
{
    std::string fault;
    program = Program();
    TraceFigures figures;
    {
        const TraceReader reader(path, fault);
        figures = reader.figures();
    }
    if (!fault.empty()) return fault;
    if (figures.ops > kProgramOpsMax || figures.slots > kOpSlotsMax)
        return "has " + std::to_string(figures.ops) + " ops on " + std::to_string(figures.slots) +
               " slots, and only `run` takes more than " + std::to_string(kProgramOpsMax) + " or " +
               std::to_string(kOpSlotsMax);
    program.ops.reserve(figures.ops);
    fault = trace_check(
        path, figures, [](void *to, const Op &op) { static_cast<OpList *>(to)->push_back(op); }, &program.ops);
    program.threads = figures.threads;
    program.schedule = Schedule::Os;
    program.links_kept = true;
    return fault;
}

} // namespace stress
