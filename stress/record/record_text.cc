#include <fmt/format.h>
#include <signal.h>

#include <ctime>

#include "engine/base/libc.h"
#include "engine/base/shell_word.h"
#include "record/record_report.h"

namespace stress {
namespace {

struct Code {
    int signal_number, code;
    const char *text;
};

constexpr Code kCodes[] = {
    {SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR: no memory is mapped there"},
    {SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR: the memory there does not permit this access"},
    {SIGSEGV, SI_KERNEL, "the address is none that the processor has, and it does not say which: see the registers"},
    {SIGFPE, FPE_INTDIV, "FPE_INTDIV: an integer divided by zero, or a quotient that does not fit"},
    {SIGFPE, FPE_INTOVF, "FPE_INTOVF: an integer overflowed"},
    {SIGFPE, FPE_FLTDIV, "FPE_FLTDIV: a floating-point number divided by zero"},
    {SIGFPE, FPE_FLTINV, "FPE_FLTINV: an invalid floating-point operation"},
    {SIGILL, ILL_ILLOPC, "ILL_ILLOPC: no instruction of this processor"},
    {SIGILL, ILL_ILLOPN, "ILL_ILLOPN: no instruction of this processor: a bad operand, or a trap of the compiler's"},
    {SIGBUS, BUS_ADRALN, "BUS_ADRALN: misaligned"},
    {SIGBUS, BUS_ADRERR, "BUS_ADRERR: behind the end of a mapped file, or no memory left"},
};

#define NAME(name, text) #name,
#define TEXT(name, text) text,
constexpr std::string_view kKindNames[] = {RECORD_KINDS(NAME)};
constexpr std::string_view kKindTexts[] = {RECORD_KINDS(TEXT)};
constexpr std::string_view kStateNames[] = {RECORD_STATES(NAME)};
constexpr std::string_view kStateTexts[] = {RECORD_STATES(TEXT)};
constexpr std::string_view kFindingNames[] = {RECORD_FINDINGS(NAME)};
constexpr std::string_view kFindingTexts[] = {RECORD_FINDINGS(TEXT)};
#undef NAME
#undef TEXT

// A record of a later version may have numbers that this list has not.
template <std::size_t Count>
std::string_view text_of(const std::string_view (&list)[Count], std::uint64_t number, std::string_view otherwise)
{
    return number < Count ? list[number] : otherwise;
}

// Replaces terminal control characters in text that came from the crashed program.
std::string printable(std::string_view text, bool lines = false)
{
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        out += (byte >= 0x20 && byte != 0x7f) || (lines && c == '\n') ? c : '?';
    }
    return out;
}

void add_line(std::string &out, const char *name, const std::string &text)
{
    if (!text.empty()) out += fmt::format("  {:<12} {}\n", name, printable(text));
}

std::string optional_text(std::optional<std::uint64_t> number)
{
    return number.has_value() ? std::to_string(*number) : "";
}

void add_happened(std::string &out, const CrashRecord &record)
{
    out += "What happened\n";
    std::string what = crash_signal_name(record);
    if (const auto address = record.number(RECORD_fault_address)) what += " at " + crash_hex(*address);
    add_line(out, "signal", what);
    add_line(out, "", crash_code_text(record));
    std::string process = optional_text(record.number(RECORD_process));
    if (crash_is_forked(record).value_or(false))
        process += ", forked since from process " + optional_text(record.number(RECORD_installed_process));
    add_line(out, "process", process);
    add_line(out, "thread", optional_text(record.number(RECORD_thread)) + " " + record.text(RECORD_thread_name));
    if (const auto time_ns = record.number(RECORD_time_ns)) {
        const auto seconds = static_cast<time_t>(*time_ns / 1'000'000'000);
        struct tm utc{};
        char text[64] = "";
        if (gmtime_r(&seconds, &utc) != nullptr) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
        add_line(out, "time", text);
    }
    add_line(out, "program", record.text(RECORD_program));
    add_line(out, "library", record.text(RECORD_library) + " " + record.text(RECORD_library_version));
    add_line(out, "build ids", record.text(RECORD_program_build_id) + " " + record.text(RECORD_library_build_id));
}

void add_frames(std::string &out, const std::vector<CrashFrame> &frames)
{
    for (std::size_t i = 0; i < frames.size(); ++i) {
        const CrashFrame &frame = frames[i];
        std::string place =
            frame.module.empty() ? "in no known file" : printable(frame.module) + "+" + crash_hex(frame.offset);
        if (frame.lines.empty()) out += fmt::format("  #{:<2} {:<18} {}\n", i, crash_hex(frame.pc), place);
        for (std::size_t k = 0; k < frame.lines.size(); ++k) {
            const CrashLine &line = frame.lines[k];
            if (!line.file.empty()) place = printable(line.file) + ":" + std::to_string(line.line);
            out += fmt::format("  #{:<2} {:<18} {} at {}{}\n", i, crash_hex(frame.pc), printable(line.function), place,
                               k + 1 < frame.lines.size() ? " (inlined)" : "");
        }
    }
}

void add_where(std::string &out, const CrashRecord &record, const std::vector<CrashFrame> &frames,
               const std::string &note)
{
    out += "\nWhere\n";
    add_frames(out, frames);
    if (frames.empty()) out += "  the record has no backtrace\n";
    if (!note.empty()) out += "  " + printable(note) + "\n";
    out += "\nRegisters\n";
    for (std::size_t i = 0; i < record.registers.size(); ++i)
        out +=
            fmt::format("  {:<6} {:<18}{}", printable(record.registers[i].name), crash_hex(record.registers[i].value),
                        i % 3 == 2 || i + 1 == record.registers.size() ? "\n" : " ");
}

// A framed block is only part of the memory that the heap keeps for it, so the address may lie outside the block.
std::string where_to(const CrashPlace &place)
{
    const auto offset = static_cast<std::int64_t>(place.offset);
    if (offset < 0) return fmt::format("{} bytes before", 0 - place.offset);
    if (place.offset >= place.block_bytes)
        return fmt::format("{} bytes behind the end of", place.offset - place.block_bytes);
    return fmt::format("byte {} of", offset);
}

void add_place(std::string &out, const CrashPlace &place)
{
    const std::string of = place.of == "fault"  ? "the fault's address"
                           : place.of == "free" ? "given to free or realloc"
                                                : "register " + printable(place.of);
    out += fmt::format("  {} ({}): {}\n", crash_hex(place.address), of, crash_kind_text(place.kind));
    const std::string heap = place.owner == 0 ? "a heap of the program's own" : fmt::format("heap {}", place.owner);
    if (place.kind == RECORD_KIND_slab)
        out += fmt::format("    superslab {}, page {}, class {}, {}{}; {} of {} blocks carved, {} in use\n",
                           crash_hex(place.superslab), place.page, place.class_index, heap,
                           place.owner_is_orphan != 0 ? " (whose thread has ended)" : "", place.slab_carved,
                           place.slab_capacity, place.slab_used);
    if (place.block_start != 0)
        out += fmt::format("    {} the block of {} bytes at {}\n", where_to(place), place.block_bytes,
                           crash_hex(place.block_start));
    if (place.kind != RECORD_KIND_none && place.kind != RECORD_KIND_free)
        out += fmt::format("    {}\n", crash_state_text(place.state));
    if (!place.words.empty()) {
        out += "    the block begins";
        for (const std::uint64_t word : place.words) out += fmt::format(" {:016x}", word);
        out += "\n";
    }
    if (place.list_value != 0)
        out += fmt::format("    its slab's free list leads out of the slab: {} stands at {}\n",
                           crash_hex(place.list_value),
                           place.list_word == 0 ? "the list's head" : crash_hex(place.list_word));
}

void add_heap(std::string &out, const CrashRecord &record)
{
    out += "\nWhat the heap knows\n";
    if (const auto word = record.number(RECORD_suspect_address)) {
        out += fmt::format("  a broken list of free blocks of class {}: {} stands at {}: {}\n",
                           record.number(RECORD_suspect_class).value_or(0),
                           crash_hex(record.number(RECORD_suspect_value).value_or(0)), crash_hex(*word),
                           printable(record.text(RECORD_suspect_text)));
        out += "    a block was freed twice, or written to after it was freed or past the end of the one before it\n";
        for (const std::uint64_t copy : record.suspect_copies)
            out += fmt::format("    that value is also the first word of the block at {}\n", crash_hex(copy));
    }
    for (const CrashPlace &place : record.places) add_place(out, place);
    if (record.places.empty()) out += "  no register points into it\n";
}

// "8 bytes into a block of 100 bytes at 0x7f00", as far as the record knows the block.
std::string guard_place(const CrashGuard &guard)
{
    if (guard.block_start == 0) return crash_hex(guard.address) + ", where no block has been";
    const std::uint64_t end = guard.block_start + guard.block_bytes;
    std::string distance;
    if (guard.address < guard.block_start) distance = fmt::format("{} bytes before", guard.block_start - guard.address);
    else if (guard.address >= end) distance = fmt::format("{} bytes past the end of", guard.address - end);
    else distance = fmt::format("{} bytes into", guard.address - guard.block_start);
    return fmt::format("{} a {} block of {} bytes at {}", distance, crash_state_name(guard.state), guard.block_bytes,
                       crash_hex(guard.block_start));
}

void add_event(std::string &out, const char *what, std::uint64_t thread, const std::vector<CrashFrame> &frames)
{
    if (thread == 0 && frames.empty()) return;
    out += thread == 0 ? fmt::format("  {} at\n", what) : fmt::format("  {} by thread {} at\n", what, thread);
    add_frames(out, frames);
}

void add_failfast(std::string &out, const CrashRecord &record, const EventFrames &frames)
{
    const CrashFailfast &found = *record.failfast;
    out += "\nWhat a check has found\n";
    out += fmt::format("  {}: {}\n", printable(found.name), printable(found.text));
    out += fmt::format("  the address {}: {}\n", crash_hex(found.address), crash_kind_text(found.kind));
    if (found.block_start != 0) {
        out += fmt::format("  the block: {} bytes at {}\n", found.block_bytes, crash_hex(found.block_start));
        out += fmt::format("  {}\n", crash_state_text(found.state));
    }
    if (found.bad_address != 0)
        out +=
            fmt::format("  overwritten: {}{}; its word holds {:016x}\n", crash_hex(found.bad_address),
                        found.bad_bytes > 1 ? fmt::format(" and {} bytes more", found.bad_bytes - 1) : "", found.value);
    if (!found.call.empty()) out += fmt::format("  found by: {}\n", printable(found.call));
    add_event(out, "allocated", found.allocated_by, frames.allocated);
    add_event(out, "freed", found.freed_by, frames.freed);
    if (found.allocated_count == 0)
        out += "  HAKMEM_FAILFAST_LEVEL=3 in the environment tells where the block was allocated and freed\n";
}

void add_guard(std::string &out, const CrashGuard &guard, const EventFrames &frames)
{
    out += "\nWhat a sampled block has found\n";
    out += fmt::format("  {}: {}\n", crash_finding_text(guard.finding), guard_place(guard));
    add_event(out, "allocated", guard.allocated_by, frames.allocated);
    add_event(out, "freed", guard.freed_by, frames.freed);
}

void add_repeat(std::string &out, const CrashRecord &record)
{
    out += "\nHow to repeat it\n";
    add_line(out, "seed", optional_text(record.number(RECORD_seed)));
    add_line(out, "clock", optional_text(record.number(RECORD_clock)));
    if (const auto hash = record.number(RECORD_schedule_hash)) add_line(out, "schedule", fmt::format("{:016x}", *hash));
    add_line(out, "directory", record.text(RECORD_directory));
    std::string command;
    for (const std::string &word : record.list(RECORD_arguments)) {
        if (!command.empty()) command += ' ';
        command += shell_word(word);
    }
    for (const std::string &entry : record.list(RECORD_environment))
        for (const char *name : {"LD_PRELOAD=", "LD_LIBRARY_PATH=", "HAKMEM_"})
            if (entry.starts_with(name)) add_line(out, "with", entry);
    add_line(out, "was run as", command);
    add_line(out, "its input", record.text(RECORD_standard_input));
    add_line(out, "repeat with", record.text(RECORD_reproduce));
}

}  // namespace

std::optional<bool> crash_is_forked(const CrashRecord &record)
{
    const auto process = record.number(RECORD_process), installed = record.number(RECORD_installed_process);
    if (!process.has_value() || !installed.has_value()) return std::nullopt;
    return *process != *installed;
}

std::string crash_hex(std::uint64_t value)
{
    return fmt::format("{:#x}", value);
}

std::string crash_signal_name(const CrashRecord &record)
{
    const std::uint64_t number = record.number(RECORD_signal).value_or(0);
    const char *name = number < 65 ? signal_name(static_cast<int>(number)) : nullptr;
    return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

std::string crash_code_text(const CrashRecord &record)
{
    const auto code = static_cast<std::int64_t>(record.number(RECORD_signal_code).value_or(0));
    const auto number = static_cast<std::int64_t>(record.number(RECORD_signal).value_or(0));
    for (const Code &known : kCodes)
        if (known.signal_number == number && known.code == code) return known.text;
    if (code > 0) return "";
    const auto sender = record.number(RECORD_signal_sender);
    if (!sender.has_value()) return "sent by kill, raise or abort";
    return sender == record.number(RECORD_process) ? "sent by the process itself: by abort, raise or kill"
                                                   : fmt::format("sent by process {}", *sender);
}

std::string_view crash_kind_name(std::uint64_t kind)
{
    return text_of(kKindNames, kind, "unknown");
}

std::string_view crash_kind_text(std::uint64_t kind)
{
    return text_of(kKindTexts, kind, "a kind of memory that this program does not know");
}

std::string_view crash_state_name(std::uint64_t state)
{
    return text_of(kStateNames, state, "unknown");
}

std::string_view crash_state_text(std::uint64_t state)
{
    return text_of(kStateTexts, state, "a state that this program does not know");
}

std::string_view crash_finding_name(std::uint64_t finding)
{
    return text_of(kFindingNames, finding, "unknown");
}

std::string_view crash_finding_text(std::uint64_t finding)
{
    return text_of(kFindingTexts, finding, "a finding that this program does not know");
}

std::string crash_text(const CrashRecord &record, const CrashFrames &frames)
{
    std::string out;
    add_happened(out, record);
    for (std::size_t i = 0; i < record.guards.size(); ++i)
        add_guard(out, record.guards[i], i < frames.guards.size() ? frames.guards[i] : EventFrames());
    if (record.failfast.has_value()) add_failfast(out, record, frames.failfast);
    add_where(out, record, frames.stack, frames.note);
    add_heap(out, record);
    if (const std::string operations = record.text(RECORD_operations); !operations.empty()) {
        out += "\nThe threads' last operations\n" + printable(operations, true);
        if (out.back() != '\n') out += '\n';
    }
    add_repeat(out, record);
#define X(id, name, type, text) \
    if (record.is_cut(RECORD_##name)) out += "  cut: " #name ": the record had no room for all of it\n";
    RECORD_FIELDS(X)
#undef X
    return out;
}

}  // namespace stress
