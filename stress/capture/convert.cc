#include "capture/convert.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "capture/block_table.h"
#include "capture/capture_log.h"

namespace stress {
namespace {

constexpr std::size_t kOwnSlots = 256; // free slots that a thread keeps for itself
constexpr std::size_t kStretchRecords = 1 << 18;
constexpr std::uint32_t kNoSlot = ~0U;

// The log of a process that writes no more, mapped.
class Log {
  public:
    explicit Log(const std::string &path)
    {
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat status{};
        if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size >= CAPTURE_HEAD_BYTES) {
            bytes_ = static_cast<std::size_t>(status.st_size);
            start_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
        }
        fault_ = fd < 0 ? std::strerror(errno) : start_ == MAP_FAILED || bytes_ == 0 ? "it is no log" : "";
        if (fd >= 0) close(fd);
        if (fault_.empty() && (head().magic != CAPTURE_MAGIC || head().version != CAPTURE_VERSION))
            fault_ = "it is no log of this version";
    }
    ~Log()
    {
        if (bytes_ != 0 && start_ != MAP_FAILED) munmap(start_, bytes_);
    }
    Log(const Log &) = delete;
    Log &operator=(const Log &) = delete;

    const std::string &fault() const { return fault_; }
    const capture_head &head() const { return *static_cast<const capture_head *>(start_); }
    std::uint64_t count() const
    {
        const std::uint64_t room = (bytes_ - CAPTURE_HEAD_BYTES) / sizeof(capture_record);
        return std::min({head().count, head().room, room});
    }

    // What was read leaves the resident set.
    template <typename Take> void each(Take take)
    {
        const auto *records =
            reinterpret_cast<const capture_record *>(static_cast<char *>(start_) + CAPTURE_HEAD_BYTES);
        const std::uint64_t end = count();
        for (std::uint64_t i = 0; i < end; ++i) {
            take(records[i]);
            if (i % kStretchRecords == kStretchRecords - 1)
                madvise(static_cast<char *>(start_) + CAPTURE_HEAD_BYTES +
                            (i + 1 - kStretchRecords) * sizeof(capture_record),
                        kStretchRecords * sizeof(capture_record), MADV_DONTNEED);
        }
    }

  private:
    void *start_ = MAP_FAILED;
    std::size_t bytes_ = 0;
    std::string fault_;
};

// How many bytes of a block the program touched, by the number of the op that gave the block. Of most blocks nobody
// asked: a replay touches these as if there were no such thing.
using Touched = std::unordered_map<std::uint64_t, std::uint64_t>;

// Turns records into ops; each run over the same log gives the same ops, but for Touches: the first run fills `touched`,
// the second one (`tells`) puts an op before each block that is in it.
template <typename Sink> class Converter {
  public:
    Converter(Sink &sink, Touched &touched, bool tells)
        : sink_(sink), touched_(touched), tells_(tells), seats_(CAPTURE_SEATS)
    {}

    TraceFigures figures;
    std::uint64_t unknown_frees = 0, holes = 0;

    void take(const capture_record &record)
    {
        const auto kind = static_cast<unsigned>(record.what & 31);
        align_log2_ = static_cast<std::uint8_t>(std::min<std::uint64_t>(record.what >> 5 & 31, kOpAlignLog2Max));
        seat_ = static_cast<std::uint16_t>(record.what >> 10 & 1023);
        const std::uint64_t address = record.what >> 20;
        switch (kind) {
        case CAPTURE_MALLOC: allocate(OpKind::Malloc, address, record.size_bytes, 0); break;
        case CAPTURE_CALLOC: allocate(OpKind::Calloc, address, record.size_bytes, 1); break;
        case CAPTURE_ALIGNED_ALLOC: allocate(OpKind::AlignedAlloc, address, record.size_bytes, align_log2_); break;
        case CAPTURE_POSIX_MEMALIGN: allocate(OpKind::PosixMemalign, address, record.size_bytes, align_log2_); break;
        case CAPTURE_MEMALIGN: allocate(OpKind::Memalign, address, record.size_bytes, align_log2_); break;
        case CAPTURE_FREE: release(blocks_.take(address)); break;
        case CAPTURE_REALLOC_BEGIN: seats_[seat_].moving.push_back({address, blocks_.take(address)}); break;
        case CAPTURE_REALLOC_END: reallocate(address, record.size_bytes); break;
        case CAPTURE_THREAD_END: put(op_make(OpKind::Renew, 0)); break;
        case CAPTURE_FORK: put(op_make(OpKind::Fork, 0)); break;
        case CAPTURE_TRIM: put(op_make(OpKind::Purge, 0)); break;
        case CAPTURE_TOUCHED: touch(address, record.size_bytes); break;
        default: ++holes;
        }
    }

  private:
    struct Given {
        std::uint64_t number = 0;
        bool from_calloc = false;
    };
    struct Moving {
        std::uint64_t address;
        std::uint32_t slot;
    };
    struct SeatState {
        std::vector<std::uint32_t> free_slots;
        std::vector<Moving> moving; // blocks in realloc; several where threads share a seat
    };

    void put(Op op)
    {
        op.thread = seat_;
        figures.threads = std::max<std::uint32_t>(figures.threads, seat_ + 1U);
        ++figures.ops;
        sink_(op);
    }

    // A block is given next: tells how much of it will be touched.
    void give(OpKind kind, std::uint32_t slot)
    {
        given_[slot] = {gives_++, kind == OpKind::Calloc};
        if (!tells_) return;
        if (const auto found = touched_.find(given_[slot].number); found != touched_.end())
            put(op_make(OpKind::Touches, 0, found->second));
    }

    // The last record counts: a block may have one at exit, and then be freed. A block without a record is touched by the
    // replay as a whole, one from calloc not at all.
    void touch(std::uint64_t address, std::uint64_t size_bytes)
    {
        const std::uint32_t slot = blocks_.take(address);
        if (slot == kNoSlot) return;
        blocks_.put(address, slot);
        if (tells_) return;
        if (size_bytes < sizes_[slot] || given_[slot].from_calloc) touched_[given_[slot].number] = size_bytes;
        else touched_.erase(given_[slot].number);
    }

    std::uint32_t slot_take()
    {
        std::vector<std::uint32_t> &own = seats_[seat_].free_slots;
        if (!own.empty()) {
            const std::uint32_t slot = own.back();
            own.pop_back();
            return slot;
        }
        if (!shared_free_.empty()) {
            const std::uint32_t slot = shared_free_.front();
            shared_free_.pop_front();
            return slot;
        }
        sizes_.push_back(0);
        given_.push_back({});
        figures.slots = static_cast<std::uint32_t>(sizes_.size());
        return figures.slots - 1;
    }

    void slot_give(std::uint32_t slot)
    {
        std::vector<std::uint32_t> &own = seats_[seat_].free_slots;
        if (own.size() < kOwnSlots) own.push_back(slot);
        else shared_free_.push_back(slot);
    }

    void resize(std::uint32_t slot, std::uint64_t size_bytes)
    {
        live_bytes_ += size_bytes - sizes_[slot];
        sizes_[slot] = size_bytes;
        figures.peak_live_bytes = std::max(figures.peak_live_bytes, live_bytes_);
    }

    void allocate(OpKind kind, std::uint64_t address, std::uint64_t size_bytes, std::uint8_t arg)
    {
        if (const std::uint32_t old = blocks_.take(address); old != kNoSlot) release(old); // freed past the recorder
        const std::uint32_t slot = slot_take();
        blocks_.put(address, slot);
        resize(slot, size_bytes);
        ++figures.blocks;
        figures.bytes += size_bytes;
        give(kind, slot);
        put(op_make(kind, slot, size_bytes, arg));
    }

    void release(std::uint32_t slot)
    {
        if (slot == kNoSlot) {
            ++unknown_frees;
            return;
        }
        resize(slot, 0);
        put(op_make(OpKind::Free, slot));
        slot_give(slot);
    }

    void reallocate(std::uint64_t address, std::uint64_t size_bytes)
    {
        std::vector<Moving> &moving = seats_[seat_].moving;
        if (moving.empty()) return;
        const Moving old = moving.front();
        moving.erase(moving.begin());
        if (address == 0 && size_bytes != 0) { // refused: the old block stays
            if (old.slot != kNoSlot) blocks_.put(old.address, old.slot);
            return;
        }
        if (address == 0) return release(old.slot); // realloc(p, 0) that frees
        if (old.slot == kNoSlot) {
            ++unknown_frees;
            return allocate(OpKind::Malloc, address, size_bytes, 0);
        }
        if (const std::uint32_t stale = blocks_.take(address); stale != kNoSlot) release(stale);
        blocks_.put(address, old.slot);
        size_bytes = std::max<std::uint64_t>(size_bytes, 1); // a malloc may free instead of giving a block of 0 bytes
        resize(old.slot, size_bytes);
        figures.bytes += size_bytes;
        give(OpKind::Realloc, old.slot);
        put(op_make(OpKind::Realloc, old.slot, size_bytes));
    }

    Sink &sink_;
    Touched &touched_;
    const bool tells_;
    BlockTable blocks_;
    std::vector<SeatState> seats_;
    std::deque<std::uint32_t> shared_free_;
    std::vector<std::uint64_t> sizes_;
    std::vector<Given> given_; // by slot
    std::uint64_t gives_ = 0;
    std::uint64_t live_bytes_ = 0;
    std::uint16_t seat_ = 0;
    std::uint8_t align_log2_ = 0;
};

// First run over the log: marks the ops that hand a slot from one thread to another, on both sides.
struct MarkHandovers {
    struct Last {
        std::uint64_t op;
        std::uint32_t thread;
    };
    std::vector<Last> slots;
    std::vector<bool> handed;

    void operator()(const Op &op)
    {
        if (!op_has_slot(op.kind)) return;
        const std::uint64_t number = handed.size();
        handed.push_back(false);
        if (op.slot >= slots.size()) slots.resize(op.slot + 1, {0, op.thread});
        Last &last = slots[op.slot];
        if (last.thread != op.thread) handed[last.op] = handed[number] = true;
        last = {number, op.thread};
    }
};

// Second run: writes the ops with their links.
struct WriteLinked {
    TraceWriter &writer;
    const std::vector<bool> &handed;
    std::vector<std::uint16_t> turns;
    std::uint64_t number = 0;

    void operator()(Op op)
    {
        if (op_has_slot(op.kind) && handed[number++]) op.link = turns[op.slot] = link_next(turns[op.slot]);
        writer.add(op);
    }
};

} // namespace

std::string capture_peek(const std::string &log_path, CaptureResult &result)
{
    const Log log(log_path);
    if (!log.fault().empty()) return "'" + log_path + "': " + log.fault();
    result.pid = log.head().pid;
    result.program.assign(log.head().program, strnlen(log.head().program, CAPTURE_PROGRAM_BYTES));
    result.figures.ops = log.count();
    return "";
}

std::string capture_convert(const std::string &log_path, const std::string &trace_path, CaptureResult &result)
{
    if (std::string fault = capture_peek(log_path, result); !fault.empty()) return fault;
    Log log(log_path);
    MarkHandovers mark;
    Touched touched;
    Converter<MarkHandovers> first(mark, touched, false);
    log.each([&first](const capture_record &record) { first.take(record); });
    result.figures = first.figures;
    result.unknown_frees = first.unknown_frees;
    result.lost = log.head().count - log.count() + first.holes;
    if (first.figures.blocks == 0) return "";
    first.figures.ops += touched.size();
    result.figures.ops = first.figures.ops;

    constexpr std::uint64_t short_ops = 500'000; // at the best level a second's work
    TraceWriter writer(first.figures, first.figures.ops <= short_ops ? 19 : 3);
    WriteLinked write{writer, mark.handed, std::vector<std::uint16_t>(first.figures.slots)};
    Converter<WriteLinked> second(write, touched, true);
    log.each([&second](const capture_record &record) { second.take(record); });
    return writer.write(trace_path);
}

} // namespace stress
