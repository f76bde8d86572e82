// Names of functions and lines for program counters, from llvm-symbolizer or addr2line where there is one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/record_read.h"

namespace stress {

struct CrashLine {
    std::string function, file;  // empty: not known
    std::uint64_t line = 0;      // 0: not known
};

struct CrashFrame {
    std::uint64_t pc = 0;
    std::string module;          // path; empty: in no file
    std::uint64_t offset = 0;    // in the module, as addr2line wants it
    std::vector<CrashLine> lines;  // innermost first: what was inlined, then the function itself; may be empty
};

// A frame for each program counter of the record. Lines only where symbolize is set, the module's file is there, and a
// symbolizer is installed; `note` says why there are none.
std::vector<CrashFrame> crash_frames(const CrashRecord &record, bool symbolize, std::string &note);

// Where a block was allocated and freed, without the library's own frames; in the order of record.guards.
struct GuardFrames {
    std::vector<CrashFrame> allocated, freed;
};
std::vector<GuardFrames> guard_frames(const CrashRecord &record, bool symbolize);

}  // namespace stress
