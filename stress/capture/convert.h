// From the log of a captured process (capture_log.h) to a trace (program/trace_file.h).
//
// Each block gets a slot for its life. A thread takes slots that it freed last; beyond kOwnSlots they go to all threads,
// oldest first. An op on a slot that another thread used last is linked to that thread's op, so the replay keeps the
// order of the ops on each block, and no other order between threads.
#pragma once

#include <cstdint>
#include <string>

#include "program/trace_file.h"

namespace stress {

struct CaptureResult {
    std::uint32_t pid = 0;
    std::string program; // its path
    TraceFigures figures;
    std::uint64_t unknown_frees = 0; // of blocks that were there before the first record; they are not replayed
    std::uint64_t lost = 0; // records that did not fit, or were cut off by a kill
};

// Reads a log that nobody writes to any more, and writes the trace. Empty, or what is wrong. A log without any block
// writes no file.
std::string capture_convert(const std::string &log_path, const std::string &trace_path, CaptureResult &result);

// The head of a log: whose it is. Empty, or what is wrong.
std::string capture_peek(const std::string &log_path, CaptureResult &result);

} // namespace stress
