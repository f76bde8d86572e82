// Reads a crash record, as <hakmem/record.h> defines it. Takes any bytes: everything but a complete, sound record is
// refused with a reason.
#pragma once

#include <hakmem/record.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stress {

struct CrashModule {
    std::uint64_t base = 0, start = 0, end = 0;
    std::string build_id;  // hexadecimal
    std::string path;
};

// What the heap knew of an address.
struct CrashPlace {
#define X(name, text) std::uint64_t name = 0;
    RECORD_PLACE(X)
#undef X
    std::vector<std::uint64_t> words;  // the block's first
    std::string of;                    // "fault", or the register's name
};

// What the check of a sampled block found.
struct CrashGuard {
#define X(name, text) std::uint64_t name = 0;
    RECORD_GUARD(X)
#undef X
    std::vector<std::uint64_t> allocated_at, freed_at;  // return addresses, the innermost first
};

// The finding of the failed check that ended the process.
struct CrashFailfast {
#define X(name, text) std::uint64_t name = 0;
    RECORD_FAILFAST(X)
#undef X
    std::vector<std::uint64_t> allocated_at, freed_at;  // return addresses, the innermost first
    // Name and text of the kind; the call that found it, or empty if not known.
    std::string name, text, call;
};

struct CrashRegister {
    std::string name;
    std::uint64_t value = 0;
};

struct CrashRecord {
    std::vector<CrashRegister> registers;
    std::vector<CrashModule> modules;
    std::vector<CrashPlace> places;
    std::vector<CrashGuard> guards;
    std::optional<CrashFailfast> failfast;
    std::vector<std::uint64_t> backtrace, suspect_copies;
    std::map<std::uint32_t, std::uint64_t> numbers;             // by id: fields that may occur once
    std::map<std::uint32_t, std::string> texts;                 // bytes: as hexadecimal
    std::map<std::uint32_t, std::vector<std::string>> lists;

    std::optional<std::uint64_t> number(record_field field) const;
    std::string text(record_field field) const;                 // empty if it is not there
    const std::vector<std::string> &list(record_field field) const;
    // Whether the writer had no room for the whole field.
    bool is_cut(record_field field) const { return (number(RECORD_cut).value_or(0) >> field & 1) != 0; }
    // The module that contains the address; nullptr if none is known to.
    const CrashModule *module_of(std::uint64_t address) const;
};

// Empty, or what is wrong with the bytes and how to mend it: "is cut off ...; copy it again".
std::string record_read(std::string_view bytes, CrashRecord &record);

// The same for a file: "'PATH' ...". Does not read files above 1 MiB.
std::string record_load(const std::string &path, CrashRecord &record);

// CRC-32 as in zip.
std::uint32_t record_crc32(std::string_view bytes);

}  // namespace stress
