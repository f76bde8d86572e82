// From logs of random calls to traces: each op is the call that was made, on the block that it was made on, in the order of the log.
#include "capture/convert.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "capture/capture_log.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"

namespace stress {
namespace {

constexpr std::uint64_t kNone = ~0ULL;
constexpr unsigned kSeats = 5;

// An op of a block, instead of a slot; `touched`: what an op before it says.
struct Expected {
    OpKind kind;
    std::uint16_t seat;
    std::uint64_t block = kNone, size = 0;
    std::uint8_t arg = 0;
    std::uint64_t touched = kNone;
};

// Makes calls, and says what the trace must have.
class Calls {
  public:
    explicit Calls(std::uint64_t stream) : rng_(stream, 0) {}

    std::vector<capture_record> log;
    std::vector<Expected> ops;
    TraceFigures figures;
    std::uint64_t unknown = 0, holes = 0;

    void step()
    {
        seat_ = static_cast<std::uint16_t>(rng_.below(kSeats));
        const std::uint64_t what = rng_.below(100);
        if (what < 40) allocate();
        else if (what < 65) free_one();
        else if (what < 80) moving_.size() < 6 && rng_.one_in(2) ? realloc_begin() : realloc_end();
        else if (what < 92) touch();
        else if (what < 94) record(CAPTURE_THREAD_END, 0, 0), add({OpKind::Renew, seat_});
        else if (what < 95) record(CAPTURE_FORK, 0, 0), add({OpKind::Fork, seat_});
        else if (what < 96) record(CAPTURE_TRIM, 0, 0), add({OpKind::Purge, seat_});
        else if (what < 98) log.push_back({0, 0}), ++holes;
        else record(CAPTURE_FREE, 8 * (kAddresses + rng_.below(100)), 0), ++unknown;
    }

  private:
    static constexpr std::uint64_t kAddresses = 600;
    struct Live {
        std::uint64_t block, size, give; // the op that gave it
        bool is_cleared;
    };
    struct Move {
        std::uint16_t seat;
        std::uint64_t address;
        bool is_known;
        Live live;
    };

    void record(unsigned kind, std::uint64_t address, std::uint64_t size, unsigned align_log2 = 0)
    {
        log.push_back({capture_what(kind, align_log2, seat_, address), size});
    }
    void add(const Expected &op)
    {
        figures.threads = std::max<std::uint32_t>(figures.threads, op.seat + 1U);
        ops.push_back(op);
    }
    std::uint64_t draw_size() { return rng_.below(std::uint64_t{1} << rng_.below(18)); }
    std::uint64_t draw_address() { return 8 * (1 + rng_.below(kAddresses - 1)); }

    void live_bytes_change(std::uint64_t more)
    {
        live_bytes_ += more;
        figures.peak_live_bytes = std::max(figures.peak_live_bytes, live_bytes_);
    }
    void give(std::uint64_t address, OpKind kind, std::uint64_t block, std::uint64_t size, std::uint8_t arg)
    {
        live_[address] = {block, size, ops.size(), kind == OpKind::Calloc};
        live_bytes_change(size);
        figures.bytes += size;
        add({kind, seat_, block, size, arg});
    }
    void release(std::uint64_t address)
    {
        const Live gone = live_.at(address);
        live_.erase(address);
        live_bytes_change(-gone.size);
        add({OpKind::Free, seat_, gone.block});
    }
    // An address that is live was freed where nobody looked.
    void make_free(std::uint64_t address)
    {
        if (live_.count(address) != 0) release(address);
    }
    void allocate()
    {
        static constexpr std::pair<unsigned, OpKind> kinds[] = {{CAPTURE_MALLOC, OpKind::Malloc},
                                                                {CAPTURE_CALLOC, OpKind::Calloc},
                                                                {CAPTURE_ALIGNED_ALLOC, OpKind::AlignedAlloc},
                                                                {CAPTURE_POSIX_MEMALIGN, OpKind::PosixMemalign},
                                                                {CAPTURE_MEMALIGN, OpKind::Memalign}};
        const auto [kind, op] = kinds[rng_.below(std::size(kinds))];
        const bool is_aligned = kind >= CAPTURE_ALIGNED_ALLOC;
        const auto align_log2 = static_cast<std::uint8_t>(is_aligned ? rng_.below(kOpAlignLog2Max + 1) : 0);
        const std::uint64_t address = draw_address(), size = draw_size();
        record(kind, address, size, align_log2);
        make_free(address);
        ++figures.blocks;
        give(address, op, blocks_++, size, op == OpKind::Calloc ? 1 : align_log2);
    }
    std::uint64_t any()
    {
        auto at = live_.lower_bound(draw_address());
        return at != live_.end() ? at->first : live_.begin()->first;
    }
    void free_one()
    {
        if (live_.empty()) return;
        const std::uint64_t address = any();
        record(CAPTURE_FREE, address, 0);
        release(address);
    }
    void realloc_begin()
    {
        if (live_.empty()) return;
        const bool is_known = !rng_.one_in(6);
        const std::uint64_t address = is_known ? any() : 8 * (kAddresses + rng_.below(100));
        record(CAPTURE_REALLOC_BEGIN, address, 0);
        moving_.push_back({seat_, address, is_known, is_known ? live_.at(address) : Live{}});
        if (is_known) live_.erase(address);
    }
    // The oldest of a seat: it may have several threads.
    void realloc_end()
    {
        const auto at =
            std::find_if(moving_.begin(), moving_.end(), [this](const Move &move) { return move.seat == seat_; });
        if (at == moving_.end()) return;
        const Move move = *at;
        moving_.erase(at);
        const std::uint64_t how = rng_.below(6), size = how == 1 || how == 2 ? 0 : 1 + draw_size();
        const bool is_refused = how == 0, frees = how == 1;
        const std::uint64_t address = is_refused || frees ? 0 : draw_address();
        record(CAPTURE_REALLOC_END, address, size);
        if (is_refused) {
            if (!move.is_known) return;
            make_stay(move);
        } else if (frees) {
            if (!move.is_known) ++unknown;
            else live_bytes_change(-move.live.size), add({OpKind::Free, seat_, move.live.block});
        } else if (!move.is_known) {
            ++unknown;
            make_free(address);
            ++figures.blocks;
            give(address, OpKind::Malloc, blocks_++, size, 0);
        } else {
            make_free(address);
            live_bytes_ -= move.live.size;
            give(address, OpKind::Realloc, move.live.block, std::max<std::uint64_t>(size, 1), 0);
        }
    }
    // The old block is where it was, unless another one was put there meanwhile: then the log would be wrong.
    void make_stay(const Move &move)
    {
        if (live_.count(move.address) == 0) {
            live_[move.address] = move.live;
            return;
        }
        log.pop_back();
        moving_.push_front(move);
    }
    void touch()
    {
        if (live_.empty()) return;
        const std::uint64_t address = any();
        const Live &live = live_.at(address);
        const std::uint64_t bytes = rng_.one_in(3) ? live.size : rng_.below(live.size + 1);
        record(CAPTURE_TOUCHED, address, bytes);
        ops[live.give].touched = bytes < live.size || live.is_cleared ? bytes : kNone;
    }

    Rng rng_;
    std::uint16_t seat_ = 0;
    std::map<std::uint64_t, Live> live_; // by address
    std::deque<Move> moving_;
    std::uint64_t blocks_ = 0, live_bytes_ = 0;
};

class Convert : public testing::Test {
  protected:
    std::string log_path = testing::TempDir() + "hakmem-convert-" + std::to_string(getpid());
    std::string trace_path = log_path + ".trace";
    ~Convert() override
    {
        unlink(log_path.c_str());
        unlink(trace_path.c_str());
    }

    void write_log(const Calls &calls, std::uint64_t room, std::uint64_t count)
    {
        capture_head head{};
        head.magic = CAPTURE_MAGIC;
        head.version = CAPTURE_VERSION;
        head.pid = 77;
        head.room = room;
        head.count = count;
        std::string bytes(CAPTURE_HEAD_BYTES, '\0');
        std::copy_n(reinterpret_cast<const char *>(&head), sizeof head, bytes.begin());
        bytes.append(reinterpret_cast<const char *>(calls.log.data()), calls.log.size() * sizeof calls.log[0]);
        ASSERT_EQ(result_write(log_path, bytes), "");
    }
};

TEST_F(Convert, EachOpIsTheCallThatWasMade)
{
    for (std::uint64_t stream = 1; stream <= 6; ++stream) {
        SCOPED_TRACE("stream " + std::to_string(stream));
        Calls calls(stream);
        for (int i = 0; i < 6000; ++i) calls.step();
        const std::uint64_t cut = stream % 3; // records that found no room
        ASSERT_NO_FATAL_FAILURE(write_log(calls, calls.log.size(), calls.log.size() + cut));
        CaptureResult result;
        ASSERT_EQ(capture_convert(log_path, trace_path, result), "");
        std::vector<Op> ops;
        TraceFigures figures;
        ASSERT_EQ(trace_check(
                      trace_path, figures,
                      [](void *to, const Op &op) { static_cast<std::vector<Op> *>(to)->push_back(op); }, &ops),
                  "");
        std::map<std::uint64_t, std::uint32_t> slot_of; // of each block that is live
        std::map<std::uint32_t, std::uint64_t> block_in;
        std::map<std::uint16_t, std::uint32_t> freed_last; // by the seat's last op, if that was a free
        std::size_t at = 0;
        for (const Expected &each : calls.ops) {
            if (each.touched != kNone) {
                ASSERT_LT(at, ops.size());
                ASSERT_EQ(ops[at].kind, OpKind::Touches) << "op " << at;
                ASSERT_EQ(op_size(ops[at++]), each.touched);
            }
            ASSERT_LT(at, ops.size());
            const Op &op = ops[at++];
            ASSERT_EQ(op.kind, each.kind) << "op " << at;
            ASSERT_EQ(op.thread, each.seat);
            if (each.block == kNone) continue;
            if (each.kind != OpKind::Free) {
                ASSERT_EQ(op_size(op), each.size) << "op " << at;
                ASSERT_EQ(op.arg, each.arg) << "op " << at;
            }
            const bool is_new = slot_of.count(each.block) == 0;
            if (is_new) {
                ASSERT_TRUE(block_in.emplace(op.slot, each.block).second) << "another block has the slot, op " << at;
                if (freed_last.count(each.seat) != 0) ASSERT_EQ(op.slot, freed_last[each.seat]) << "it is in the cache";
                slot_of[each.block] = op.slot;
            }
            ASSERT_EQ(slot_of[each.block], op.slot) << "op " << at << " is of another block";
            freed_last.erase(each.seat);
            if (each.kind != OpKind::Free) continue;
            slot_of.erase(each.block);
            block_in.erase(op.slot);
            freed_last[each.seat] = op.slot;
        }
        ASSERT_EQ(at, ops.size());
        ASSERT_EQ(figures.ops, ops.size());
        ASSERT_EQ(result.figures.ops, ops.size());
        ASSERT_EQ(figures.threads, calls.figures.threads);
        ASSERT_EQ(figures.blocks, calls.figures.blocks);
        ASSERT_EQ(figures.bytes, calls.figures.bytes);
        ASSERT_EQ(figures.peak_live_bytes, calls.figures.peak_live_bytes);
        ASSERT_EQ(result.unknown_frees, calls.unknown);
        ASSERT_EQ(result.lost, calls.holes + cut);
        ASSERT_EQ(result.pid, 77u);
    }
}

// Whatever the head says, no record is read that the process did not write.
TEST_F(Convert, TheRecordsThatWereWrittenAreRead)
{
    Calls calls(1);
    for (int i = 0; i < 1000; ++i) calls.step();
    const std::uint64_t all = calls.log.size();
    for (std::uint64_t room : {all / 2, all, 2 * all})
        for (std::uint64_t count : {all / 3, all, 3 * all}) {
            ASSERT_NO_FATAL_FAILURE(write_log(calls, room, count));
            CaptureResult result;
            ASSERT_EQ(capture_peek(log_path, result), "");
            EXPECT_EQ(result.figures.ops, std::min({all, room, count}));
        }
}

} // namespace
} // namespace stress
