// The progress line: time, speed, live and resident memory. On a terminal it rewrites itself.
#pragma once

#include <cstdint>
#include <string>

namespace stress {

struct Progress {
    double seconds;
    double ops_per_second;
    std::uint64_t live_bytes;
    std::uint64_t rss_bytes;
};

// "512 B", "1.5 KiB", "20.0 MiB": three or four digits and a binary unit.
std::string format_bytes(std::uint64_t bytes);

// "950", "3.40 M": a rate per second with a decimal unit.
std::string format_rate(double per_second);

// " 12.0 s   3.40 M ops/s   live 1.2 MiB   rss 33.0 MiB", without a newline.
std::string progress_text(const Progress &progress);

// Writes the whole text to the descriptor. Does not use stdio, whose buffers come from malloc. False: the system refused
// a part, which stdout_error remembers if it was for stdout. Any thread.
bool write_text(int fd, const std::string &text);

// The errno of the newest text that stdout refused; 0: none.
int stdout_error();

} // namespace stress
