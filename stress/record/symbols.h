// Names of functions and lines for program counters, from llvm-symbolizer or addr2line if one is installed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/record_read.h"

namespace stress {

struct CrashLine {
    std::string function, file;  // empty: not known
    std::uint64_t line = 0;      // 0: not known
};

struct CrashFrame {
    std::uint64_t pc = 0;
    bool is_return = false;      // pc is where a call returns to, not where the thread stopped
    std::string module;          // path; empty: not in any file
    std::string build_id;        // of the module; may be empty
    std::uint64_t offset = 0;    // offset in the module, as addr2line expects it
    std::vector<CrashLine> lines;  // innermost first: inlined functions, then the function itself; may be empty
};

// Where a block was allocated and freed, without the library's own frames.
struct EventFrames {
    std::vector<CrashFrame> allocated, freed;
};

struct CrashFrames {
    std::vector<CrashFrame> stack;  // one frame for each program counter of the record
    std::vector<EventFrames> guards;  // in the order of record.guards
    EventFrames failfast;
    std::string note;  // why there are no lines; empty: nothing to explain
};

// Gives lines only if symbolize is set, the module's file is there and has the build id of the record, and a symbolizer is installed. Reads a module's file
// once for all frames, since debug information may be large.
CrashFrames crash_frames(const CrashRecord &record, bool symbolize);

} // namespace stress
