// fuzz_record: the reader of crash records. Takes any bytes as a record, and also as the fields of a record whose end
// and checksum are made to fit, since no fuzzer guesses those. Each must be refused in one line, or be a record that
// prints as text and as JSON, and that can be rewritten to bytes which read back as the same record.
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fuzz/find.h"
#include "record/record_report.h"

namespace {

using stress::CrashRecord;

std::string bytes_of(std::uint64_t value, int count)
{
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i & 255);
    return bytes;
}

std::string number(std::uint64_t value)
{
    return bytes_of(value, 8);
}

std::string field(std::uint32_t id, const std::string &payload)
{
    return bytes_of(id, 4) + bytes_of(payload.size(), 4) + payload;
}

std::string framed(const std::string &fields)
{
    const std::string bytes =
        RECORD_MAGIC + bytes_of(RECORD_VERSION, 4) + fields + bytes_of(RECORD_END, 4) + bytes_of(4, 4);
    return bytes + bytes_of(stress::record_crc32(bytes), 4);
}

// Converts hexadecimal digits to bytes.
std::string unhex(const std::string &digits)
{
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    return bytes;
}

std::string numbers_of(const std::vector<std::uint64_t> &values)
{
    std::string bytes;
    for (const std::uint64_t value : values) bytes += number(value);
    return bytes;
}

std::string place_of(const stress::CrashPlace &place)
{
    std::string bytes;
#define X(name, text) bytes += number(place.name);
    RECORD_PLACE(X)
#undef X
    return bytes + numbers_of(place.words) + bytes_of(place.of.size(), 1) + place.of;
}

std::string guard_of(const stress::CrashGuard &guard)
{
    std::string bytes;
#define X(name, text) bytes += number(guard.name);
    RECORD_GUARD(X)
#undef X
    return bytes + numbers_of(guard.allocated_at) + numbers_of(guard.freed_at);
}

std::string failfast_of(const stress::CrashFailfast &found)
{
    std::string bytes;
#define X(name, text) bytes += number(found.name);
    RECORD_FAILFAST(X)
#undef X
    bytes += numbers_of(found.allocated_at) + numbers_of(found.freed_at);
    for (const std::string &text : {found.name, found.text, found.call}) bytes += bytes_of(text.size(), 1) + text;
    return bytes;
}

bool is_bytes(std::uint32_t id)
{
    return id == RECORD_program_build_id || id == RECORD_library_build_id;
}

// Writes the fields of a record again, by kind, in the order of the header's list.
std::string fields_of(const CrashRecord &record)
{
    std::string fields;
    for (const auto &[id, value] : record.numbers) fields += field(id, number(value));
    for (const auto &[id, text] : record.texts) fields += field(id, is_bytes(id) ? unhex(text) : text);
    for (const auto &[id, texts] : record.lists) {
        std::string payload;
        for (const std::string &text : texts) payload += text + '\0';
        fields += field(id, payload);
    }
    for (const stress::CrashRegister &one : record.registers)
        fields += field(RECORD_register, number(one.value) + one.name);
    if (!record.backtrace.empty()) fields += field(RECORD_backtrace, numbers_of(record.backtrace));
    for (const stress::CrashModule &module : record.modules) {
        const std::string id = unhex(module.build_id);
        fields += field(RECORD_module, number(module.base) + number(module.start) + number(module.end) +
                                           bytes_of(id.size(), 1) + id + module.path);
    }
    for (const stress::CrashPlace &place : record.places) fields += field(RECORD_place, place_of(place));
    for (const stress::CrashGuard &guard : record.guards) fields += field(RECORD_guard, guard_of(guard));
    if (record.failfast.has_value()) fields += field(RECORD_failfast, failfast_of(*record.failfast));
    for (const std::uint64_t copy : record.suspect_copies) fields += field(RECORD_suspect_copy, number(copy));
    return fields;
}

// JSON without names of functions; each name would start a symbolizer.
std::string json_of(const CrashRecord &record, std::string &text)
{
    const stress::CrashFrames frames = stress::crash_frames(record, false);
    text = stress::crash_text(record, frames);
    return stress::crash_json(record, frames);
}

void check_read(const CrashRecord &record)
{
    std::string text, text_again;
    const std::string json = json_of(record, text);
    fuzz::must_hold(nlohmann::json::accept(json), "record_json", json.substr(0, 400));
    for (const char c : text)
        fuzz::must_hold(c == '\n' || static_cast<unsigned char>(c) >= ' ', "record_text_is_plain",
                        "byte " + std::to_string(static_cast<unsigned char>(c)));
    CrashRecord again;
    const std::string bytes = framed(fields_of(record));
    const std::string fault = stress::record_read(bytes, again);
    fuzz::must_hold(fault.empty(), "written_record_reads", fault);
    fuzz::must_hold(json_of(again, text_again) == json && text_again == text, "written_record_reads_the_same",
                    json.substr(0, 400));
    fuzz::must_hold(fields_of(again) == fields_of(record), "written_record_reads_the_same", "other bytes");
}

void check_bytes(const std::string &bytes)
{
    CrashRecord record;
    const std::string fault = stress::record_read(bytes, record);
    if (fault.empty()) {
        check_read(record);
        return;
    }
    const bool plain = fault.find_first_of("\n\r\x1b") == std::string::npos && fault.find(';') != std::string::npos;
    fuzz::must_hold(plain, "fault_is_one_line", fault);
    const bool is_empty = record.numbers.empty() && record.places.empty() && record.registers.empty();
    fuzz::must_hold(is_empty, "fault_leaves_nothing", fault);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string bytes(reinterpret_cast<const char *>(data), size);
    check_bytes(bytes);
    const bool has_head = bytes.starts_with(RECORD_MAGIC) && size >= RECORD_HEAD_BYTES;
    std::string fields = has_head ? bytes.substr(RECORD_HEAD_BYTES) : bytes;
    const std::string end = bytes_of(RECORD_END, 4) + bytes_of(4, 4);
    if (fields.size() >= end.size() + 4 && fields.compare(fields.size() - end.size() - 4, end.size(), end) == 0)
        fields.resize(fields.size() - end.size() - 4);
    check_bytes(framed(fields));
    return 0;
}
