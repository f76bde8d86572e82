#include "program/run_log.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>
#include <span>
#include <utility>

#include "program/program_file.h"

namespace stress {

struct RunLog::Head {
    std::uint32_t seats;
    std::uint64_t room;
    Ending ending;
    std::uint32_t settings_bytes;
    char settings[8192];
};

namespace {

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes)
{
    return (bytes + kPage - 1) / kPage * kPage;
}

std::size_t seat_bytes(std::size_t room)
{
    return round_up(sizeof(SeatLog) + room * (sizeof(SeatLog::Entry) + sizeof(OpOutcome)));
}

}  // namespace

int run_log_file()
{
    return memfd_create("hakmem-stress-log", 0);
}

RunLog RunLog::create(int fd, std::uint32_t seats, std::size_t room)
{
    const std::size_t bytes = round_up(sizeof(Head)) + seats * seat_bytes(room);
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return {nullptr, 0};
    void *start = mmap(harness_place(bytes), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (start == MAP_FAILED) return {nullptr, 0};
    harness_count_resident(bytes);
    RunLog log(start, bytes);
    log.head().seats = seats;
    log.head().room = room;
    return log;
}

RunLog RunLog::open(int fd)
{
    struct stat status{};
    if (fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) < sizeof(Head)) return {nullptr, 0};
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void *start = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (start == MAP_FAILED) return {nullptr, 0};
    RunLog log(start, bytes);
    if (log.head().room > bytes || bytes < round_up(sizeof(Head)) + log.head().seats * seat_bytes(log.head().room))
        log.start_ = (munmap(start, bytes), nullptr);
    return log;
}

RunLog::RunLog(RunLog &&other) noexcept
    : start_(std::exchange(other.start_, nullptr)), bytes_(std::exchange(other.bytes_, 0))
{}

RunLog::~RunLog()
{
    if (start_ != nullptr) munmap(start_, bytes_);
}

SeatLog &RunLog::seat_log(std::uint32_t seat) const
{
    return *reinterpret_cast<SeatLog *>(static_cast<char *>(start_) + round_up(sizeof(Head)) +
                                        seat * seat_bytes(head().room));
}

// Does not use the pointers in the SeatLog, which belong to the process that wrote it.
const SeatLog::Entry *RunLog::entries(std::uint32_t seat) const
{
    return reinterpret_cast<const SeatLog::Entry *>(&seat_log(seat) + 1);
}

const OpOutcome *RunLog::outcomes(std::uint32_t seat) const
{
    return reinterpret_cast<const OpOutcome *>(entries(seat) + head().room);
}

void RunLog::attach(Run &run)
{
    for (Seat *seat : run.seats()) {
        SeatLog &log = seat_log(seat->index);
        log.room = head().room;
        log.entries = reinterpret_cast<SeatLog::Entry *>(&log + 1);
        log.outcomes = reinterpret_cast<OpOutcome *>(log.entries + log.room);
        seat->ops.log = &log;
        seat->interp.trace = new (harness_map(sizeof(Trace))) Trace(log.outcomes, log.room);
    }
}

void RunLog::finish(const Result &result)
{
    Ending &ending = head().ending;
    if (!result.failures.empty()) {
        std::snprintf(ending.rule, sizeof ending.rule, "%s", result.failures[0].rule.c_str());
        std::snprintf(ending.detail, sizeof ending.detail, "%s", result.failures[0].detail.c_str());
    }
    if (result.seeded) ending.schedule = {result.schedule_hash, result.logical_clock};
    ending.finished = true;
}

const RunLog::Ending &RunLog::ending() const
{
    return head().ending;
}

std::uint32_t RunLog::seats() const
{
    return head().seats;
}

std::size_t RunLog::room() const
{
    return head().room;
}

std::uint64_t RunLog::dropped() const
{
    std::uint64_t dropped = 0;
    for (std::uint32_t i = 0; i < seats(); ++i) dropped += seat_log(i).begun > room() ? seat_log(i).begun - room() : 0;
    return dropped;
}

void RunLog::set_settings(const Program &program)
{
    const Text bytes = program_encode(program);
    if (bytes.size() > sizeof head().settings) return;
    std::memcpy(head().settings, bytes.data(), bytes.size());
    head().settings_bytes = static_cast<std::uint32_t>(bytes.size());
}

std::string RunLog::settings(Program &program) const
{
    const auto *bytes = reinterpret_cast<const unsigned char *>(head().settings);
    return program_decode({bytes, std::min<std::size_t>(head().settings_bytes, sizeof head().settings)}, program);
}

OpList RunLog::merged() const
{
    struct Cursor {
        std::span<const SeatLog::Entry> begun;
        std::uint64_t done, next;
    };
    std::vector<Cursor, MappedAllocator<Cursor>> cursors;
    for (std::uint32_t i = 0; i < seats(); ++i) {
        const SeatLog &log = seat_log(i);
        const std::uint64_t begun = std::min(log.begun, room());
        cursors.push_back({{entries(i), begun}, std::min(log.done, begun), 0});
    }
    std::uint32_t slots = 1;
    bool stamped = false;
    for (const Cursor &cursor : cursors)
        for (const SeatLog::Entry &entry : cursor.begun) {
            if (entry.stamp != 0) stamped = true;
            slots = std::max<std::uint32_t>(slots, entry.op.slot + 1);
        }
    std::vector<std::uint16_t, MappedAllocator<std::uint16_t>> turns(slots);
    OpList ops;
    ops.reserve(std::accumulate(cursors.begin(), cursors.end(), std::size_t{0},
                                [](std::size_t sum, const Cursor &cursor) { return sum + cursor.begun.size(); }));
    const auto in_turn = [&turns](const Op &op) { return op.link == 0 || op.link == link_next(turns[op.slot]); };
    const auto take = [&turns, &ops](Cursor &cursor) {
        const Op &op = cursor.begun[cursor.next++].op;
        if (op.link != 0) turns[op.slot] = static_cast<std::uint16_t>(op.link);
        ops.push_back(op);
    };
    for (; stamped;) {
        Cursor *first = nullptr;
        for (Cursor &cursor : cursors)
            if (cursor.next < cursor.done &&
                (first == nullptr || cursor.begun[cursor.next].stamp < first->begun[first->next].stamp))
                first = &cursor;
        if (first == nullptr) break;
        take(*first);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (Cursor &cursor : cursors)
            while (cursor.next < cursor.begun.size() && in_turn(cursor.begun[cursor.next].op)) {
                take(cursor);
                moved = true;
            }
    }
    for (const Cursor &cursor : cursors)
        if (cursor.next < cursor.begun.size()) ops.push_back(cursor.begun[cursor.next].op);
    return ops;
}

}  // namespace stress
