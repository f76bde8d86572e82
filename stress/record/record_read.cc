#include "record/record_read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace stress {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;
constexpr std::size_t kEndBytes = RECORD_FIELD_HEAD_BYTES + 4;
constexpr const char *kCopyAgain = "; copy it again from where it was written, or let the program crash again";

enum class Type { number, bytes, text, texts, numbers, named, module, place, guard, failfast };

struct FieldKind {
    std::uint32_t id;
    const char *name;
    Type type;
};

constexpr FieldKind kFields[] = {
#define X(id, name, type, text) {id, #name, Type::type},
    RECORD_FIELDS(X)
#undef X
};

const FieldKind *kind_of(std::uint32_t id)
{
    for (const FieldKind &kind : kFields)
        if (kind.id == id) return &kind;
    return nullptr;
}

std::uint64_t little_endian(std::string_view bytes)
{
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
}

std::string hexadecimal(std::string_view bytes)
{
    std::string text;
    for (const char byte : bytes) {
        text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
        text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
    }
    return text;
}

// Takes parts off the front. Once a part was missing, ok() is false and no further part is taken.
class Parts {
  public:
    explicit Parts(std::string_view bytes) : rest_(bytes) {}

    std::uint64_t number() { return little_endian(take(8)); }
    std::string_view counted()
    {
        const std::string_view count = take(1);
        return count.empty() ? count : take(static_cast<unsigned char>(count[0]));
    }
    std::string_view rest() { return take(rest_.size()); }
    std::size_t left() const { return rest_.size(); }
    bool ok() const { return ok_; }

  private:
    std::string_view take(std::size_t count)
    {
        ok_ = ok_ && count <= rest_.size();
        if (!ok_) return {};
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }

    std::string_view rest_;
    bool ok_ = true;
};

bool read_place(Parts parts, CrashPlace &place)
{
#define X(name, text) place.name = parts.number();
    RECORD_PLACE(X)
#undef X
    if (place.word_count > RECORD_WORDS) return false;
    for (std::uint64_t i = 0; i < place.word_count; ++i) place.words.push_back(parts.number());
    place.of = parts.counted();
    return parts.ok() && parts.left() == 0;
}

bool read_guard(Parts parts, CrashGuard &guard)
{
#define X(name, text) guard.name = parts.number();
    RECORD_GUARD(X)
#undef X
    if (!parts.ok() || parts.left() % 8 != 0) return false;
    const std::uint64_t left = parts.left() / 8;
    if (guard.allocated_count > left || guard.freed_count != left - guard.allocated_count) return false;
    for (std::uint64_t i = 0; i < guard.allocated_count; ++i) guard.allocated_at.push_back(parts.number());
    for (std::uint64_t i = 0; i < guard.freed_count; ++i) guard.freed_at.push_back(parts.number());
    return true;
}

bool read_failfast(Parts parts, CrashFailfast &found)
{
#define X(name, text) found.name = parts.number();
    RECORD_FAILFAST(X)
#undef X
    const std::uint64_t most = parts.left() / 8;
    if (!parts.ok() || found.allocated_count > most || found.freed_count > most - found.allocated_count) return false;
    for (std::uint64_t i = 0; i < found.allocated_count; ++i) found.allocated_at.push_back(parts.number());
    for (std::uint64_t i = 0; i < found.freed_count; ++i) found.freed_at.push_back(parts.number());
    found.name = parts.counted();
    found.text = parts.counted();
    found.call = parts.counted();
    return parts.ok() && parts.left() == 0;
}

bool read_module(Parts parts, CrashModule &module)
{
    module.base = parts.number();
    module.start = parts.number();
    module.end = parts.number();
    module.build_id = hexadecimal(parts.counted());
    module.path = parts.rest();
    return parts.ok();
}

bool read_texts(std::string_view bytes, std::vector<std::string> &texts)
{
    while (!bytes.empty()) {
        const std::size_t length = std::min(bytes.find('\0'), bytes.size());
        texts.emplace_back(bytes.substr(0, length));
        bytes.remove_prefix(std::min(length + 1, bytes.size()));
    }
    return true;
}

bool read_number(const FieldKind &kind, std::string_view payload, CrashRecord &record)
{
    if (payload.size() != 8) return false;
    if (kind.id == RECORD_suspect_copy) {
        record.suspect_copies.push_back(little_endian(payload));
        return true;
    }
    return record.numbers.emplace(kind.id, little_endian(payload)).second;
}

// False if the payload does not have the field's type, or if a field that may occur once occurs twice.
bool read_field(const FieldKind &kind, std::string_view payload, CrashRecord &record)
{
    Parts parts(payload);
    switch (kind.type) {
    case Type::number: return read_number(kind, payload, record);
    case Type::bytes: return record.texts.emplace(kind.id, hexadecimal(payload)).second;
    case Type::text: return record.texts.emplace(kind.id, payload).second;
    case Type::texts: {
        const auto [list, is_new] = record.lists.emplace(kind.id, std::vector<std::string>());
        return is_new && read_texts(payload, list->second);
    }
    case Type::numbers:
        if (payload.size() % 8 != 0 || !record.backtrace.empty()) return false;
        while (parts.left() > 0) record.backtrace.push_back(parts.number());
        return true;
    case Type::named: {
        CrashRegister &one = record.registers.emplace_back();
        one.value = parts.number();
        one.name = parts.rest();
        return parts.ok();
    }
    case Type::module: return read_module(parts, record.modules.emplace_back());
    case Type::guard: return read_guard(parts, record.guards.emplace_back());
    case Type::failfast: return !record.failfast.has_value() && read_failfast(parts, record.failfast.emplace());
    case Type::place: return read_place(parts, record.places.emplace_back());
    }
    return false;
}

// The position of the end field, or npos if there is none; `whole` then says how far the fields are complete.
std::size_t find_end(std::string_view bytes, std::size_t &whole)
{
    for (whole = RECORD_HEAD_BYTES; bytes.size() - whole >= RECORD_FIELD_HEAD_BYTES;) {
        const std::uint64_t id = little_endian(bytes.substr(whole, 4));
        const std::uint64_t length = little_endian(bytes.substr(whole + 4, 4));
        if (length > bytes.size() - whole - RECORD_FIELD_HEAD_BYTES) return std::string_view::npos;
        if (id == RECORD_END) return whole;
        whole += RECORD_FIELD_HEAD_BYTES + length;
    }
    return std::string_view::npos;
}

std::string head_fault(std::string_view bytes)
{
    if (bytes.empty()) return std::string("is empty") + kCopyAgain;
    const std::string_view magic(RECORD_MAGIC, RECORD_MAGIC_BYTES);
    if (bytes.substr(0, magic.size()) != magic.substr(0, bytes.size()))
        return "is no crash record: it does not begin with " RECORD_MAGIC "; name a file hakmem-PID-TID-N.crash";
    if (bytes.size() < RECORD_HEAD_BYTES) return std::string("is cut off in its first bytes") + kCopyAgain;
    const std::uint64_t version = little_endian(bytes.substr(RECORD_MAGIC_BYTES, 4));
    if (version != RECORD_VERSION)
        return "is a record of version " + std::to_string(version) + ", and this program reads version " +
               std::to_string(RECORD_VERSION) + "; use the hakmem-stress that came with that library";
    return "";
}

// Whether the record is complete and unchanged.
std::string frame_fault(std::string_view bytes, std::size_t &end)
{
    std::size_t whole = 0;
    end = find_end(bytes, whole);
    if (end == std::string_view::npos)
        return "is cut off, or damaged, behind byte " + std::to_string(whole) + " of " + std::to_string(bytes.size()) +
               kCopyAgain;
    if (bytes.size() != end + kEndBytes || little_endian(bytes.substr(end + 4, 4)) != 4)
        return "has not its end where it says, at byte " + std::to_string(end) + ", but " +
               std::to_string(bytes.size()) + " bytes" + kCopyAgain;
    if (record_crc32(bytes.substr(0, end + RECORD_FIELD_HEAD_BYTES)) !=
        little_endian(bytes.substr(end + RECORD_FIELD_HEAD_BYTES)))
        return std::string("is damaged: its checksum does not fit") + kCopyAgain;
    return "";
}

std::string read_all(int fd, std::string &bytes)
{
    for (;;) {
        char part[65536];
        const ssize_t count = read(fd, part, sizeof part);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return std::string("cannot be read: ") + std::strerror(errno);
        if (count == 0) return "";
        bytes.append(part, static_cast<std::size_t>(count));
        if (bytes.size() > kFileBytesMax)
            return "is larger than 1 MiB, and a crash record never is; name a file hakmem-PID-TID-N.crash";
    }
}

}  // namespace

std::optional<std::uint64_t> CrashRecord::number(record_field field) const
{
    const auto found = numbers.find(field);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

std::string CrashRecord::text(record_field field) const
{
    const auto found = texts.find(field);
    return found == texts.end() ? "" : found->second;
}

const std::vector<std::string> &CrashRecord::list(record_field field) const
{
    static const std::vector<std::string> none;
    const auto found = lists.find(field);
    return found == lists.end() ? none : found->second;
}

const CrashModule *CrashRecord::module_of(std::uint64_t address) const
{
    for (const CrashModule &module : modules)
        if (address >= module.start && address < module.end) return &module;
    return nullptr;
}

std::uint32_t record_crc32(std::string_view bytes)
{
    static const std::array<std::uint32_t, 256> table = [] {
        std::array<std::uint32_t, 256> made{};
        for (std::uint32_t i = 0; i < 256; ++i) {
            std::uint32_t crc = i;
            for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xedb88320U & (0U - (crc & 1)));
            made[i] = crc;
        }
        return made;
    }();
    std::uint32_t crc = ~0U;
    for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 255];
    return ~crc;
}

std::string record_read(std::string_view bytes, CrashRecord &record)
{
    record = CrashRecord();
    if (std::string fault = head_fault(bytes); !fault.empty()) return fault;
    std::size_t end = 0;
    if (std::string fault = frame_fault(bytes, end); !fault.empty()) return fault;
    for (std::size_t at = RECORD_HEAD_BYTES; at < end;) {
        const auto id = static_cast<std::uint32_t>(little_endian(bytes.substr(at, 4)));
        const std::size_t length = little_endian(bytes.substr(at + 4, 4));
        const FieldKind *kind = kind_of(id);
        if (kind != nullptr && !read_field(*kind, bytes.substr(at + RECORD_FIELD_HEAD_BYTES, length), record)) {
            record = CrashRecord();
            return "holds no sound field '" + std::string(kind->name) + "' at byte " + std::to_string(at) +
                   ", although its checksum fits; it was not written by this version of libhakmem: use the hakmem-stress "
                   "that came with that library";
        }
        at += RECORD_FIELD_HEAD_BYTES + length;
    }
    return "";
}

std::string record_load(const std::string &path, CrashRecord &record)
{
    const std::string name = "'" + path + "' ";
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return name + "cannot be opened: " + std::strerror(errno) + "; name a file hakmem-PID-TID-N.crash";
    struct stat status{};
    std::string bytes, fault;
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
        fault = "is a directory; name one of the files hakmem-PID-TID-N.crash in it";
    if (fault.empty()) fault = read_all(fd, bytes);
    close(fd);
    if (fault.empty()) fault = record_read(bytes, record);
    return fault.empty() ? "" : name + fault;
}

}  // namespace stress
