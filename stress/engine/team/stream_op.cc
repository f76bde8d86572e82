#include "engine/team/stream_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cerrno>

#include "engine/base/build.h"

namespace stress {
namespace {

constexpr char kFill = 'x';

// Delivers what is left of the line, and its newline.
ssize_t cookie_read(void *cookie, char *out, std::size_t room)
{
    std::size_t &left = *static_cast<std::size_t *>(cookie);
    const std::size_t count = left < room ? left : room;
    memset(out, kFill, count);
    left -= count;
    if (left == 0 && count > 0) out[count - 1] = '\n';
    return static_cast<ssize_t>(count);
}

// Whether it is the whole line and nothing else.
bool is_line(const char *line, ssize_t length, std::size_t bytes)
{
    if (length != static_cast<ssize_t>(bytes) + 1 || line[bytes] != '\n' || line[bytes + 1] != '\0') return false;
    for (std::size_t i = 0; i < bytes; ++i)
        if (line[i] != kFill) return false;
    return true;
}

}  // namespace

bool getline_apply(std::size_t bytes, Seat &seat, FailureLog &failures, InterpShared &shared)
{
    if constexpr (kSanitized) return true;  // see the header
    const SchedHold hold;
    const std::uint32_t mark = shared.scarce_mark();
    if (seat.process.stream == nullptr) {
        cookie_io_functions_t functions{};
        functions.read = cookie_read;
        seat.process.stream = fopencookie(&seat.process.stream_left, "r", functions);
        if (seat.process.stream == nullptr) return shared.scarce_since(mark);
    }
    auto *stream = static_cast<FILE *>(seat.process.stream);
    seat.process.stream_left = bytes + 1;
    char *line = nullptr;
    std::size_t room = 0;
    const ssize_t length = getline(&line, &room, stream);
    const bool scarce = shared.scarce_since(mark);
    const bool sound = length >= 0 ? is_line(line, length, bytes) : scarce;
    if (!sound)
        failures.add(length < 0 ? rule::kExhausted : rule::kContent, seat.interp.witness(),
                     "getline of a line of %zu bytes gave %zd bytes, errno %d, or other bytes", bytes, length, errno);
    if (length < 0) {  // part of this line may still be in its buffer
        fclose(stream);
        seat.process.stream = nullptr;
    }
    free(line);
    bump(seat.process.counts.getlines, 1);
    return sound;
}

void flush_all_apply()
{
    if constexpr (kSanitized) return;
    const SchedHold hold;
    fflush(nullptr);
}

void stream_close(Seat &seat)
{
    if (seat.process.stream == nullptr) return;
    fclose(static_cast<FILE *>(seat.process.stream));
    seat.process.stream = nullptr;
}

}  // namespace stress
