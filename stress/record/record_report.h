// Prints a crash record, for people or for programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/record_read.h"
#include "record/symbols.h"

namespace stress {

// Sections: what happened, where, what the heap knows, the threads' last operations, how to repeat it. Bytes that a
// terminal could take for commands are shown as '?'. `frames` belong to the record, or are empty.
std::string crash_text(const CrashRecord &record, const CrashFrames &frames);

// One object, ended by a newline. Addresses are strings such as "0x7f00", because JSON numbers end at 2^53. What the
// record does not say is null.
std::string crash_json(const CrashRecord &record, const CrashFrames &frames);

// Used by both. "SIGSEGV", "signal 99"; "SEGV_MAPERR: no mapping there"; "" if there is nothing to say.
std::string crash_signal_name(const CrashRecord &record);
std::string crash_code_text(const CrashRecord &record);
// Whether it crashed in a child of the process that installed the handler; nothing: the record does not say.
std::optional<bool> crash_is_forked(const CrashRecord &record);
std::string crash_hex(std::uint64_t value);
// Names of the enum values of record.h; "unknown" for other numbers.
std::string_view crash_kind_name(std::uint64_t kind);
std::string_view crash_kind_text(std::uint64_t kind);
std::string_view crash_state_name(std::uint64_t state);
std::string_view crash_state_text(std::uint64_t state);
std::string_view crash_finding_name(std::uint64_t finding);
std::string_view crash_finding_text(std::uint64_t finding);

} // namespace stress
