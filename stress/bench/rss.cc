#include "bench/rss.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <thread>

#include "bench/random.h"
#include "bench/row.h"
#include "bench/status.h"

namespace bench {
namespace {

constexpr std::size_t kLow = 16, kHigh = 1024;

// Blocks are linked to each other, so that no array of addresses is part of what is measured.
struct Block {
    Block *next;
    std::uint64_t size;
};

Block *fresh(Draw &draw)
{
    const std::size_t size = draw.between(kLow, kHigh);
    Block *const block = static_cast<Block *>(malloc(size));
    std::memset(static_cast<void *>(block), 0x5a, size); // touches the pages, so that they become resident
    block->size = size;
    return block;
}

class List {
  public:
    void push(Block *block)
    {
        block->next = nullptr;
        *(first_ == nullptr ? &first_ : &last_->next) = block;
        last_ = block;
        bytes_ += block->size;
    }

    void fill(Draw &draw, std::uint64_t bytes)
    {
        while (bytes_ < bytes) push(fresh(draw));
    }

    // Frees all blocks except every `kept`th; 0: all. In the order of their allocation.
    void release(std::uint64_t kept)
    {
        List rest;
        std::uint64_t number = 0;
        for (Block *block = first_, *next; block != nullptr; block = next) {
            next = block->next;
            if (kept != 0 && ++number % kept == 0) {
                rest.push(block);
            } else {
                free(block);
            }
        }
        *this = rest;
    }

    std::uint64_t bytes() const { return bytes_; }

  private:
    Block *first_ = nullptr, *last_ = nullptr;
    std::uint64_t bytes_ = 0;
};

// A program that continues with little work: a malloc has a chance to return memory, but nobody asks it to.
void idle(std::uint64_t wait_ms, Draw &draw)
{
    const timespec nap{0, 10 * 1000 * 1000};
    for (std::uint64_t passed_ms = 0; passed_ms < wait_ms; passed_ms += 10) {
        nanosleep(&nap, nullptr);
        for (int i = 0; i < 4; ++i) free(fresh(draw));
    }
}

RssFigures small_freed_but(const RssPlan &plan, std::uint64_t kept)
{
    Draw draw(plan.seed, 0);
    List list;
    RssFigures figures{{"start", status_kib("VmRSS")}};
    list.fill(draw, plan.mib << 20);
    figures.emplace_back("full", status_kib("VmRSS"));
    figures.emplace_back("live", list.bytes() >> 10);
    list.release(kept);
    figures.emplace_back("freed", status_kib("VmRSS"));
    figures.emplace_back("kept", list.bytes() >> 10);
    idle(plan.wait_ms, draw);
    figures.emplace_back("later", status_kib("VmRSS"));
    list.release(0);
    return figures;
}

RssFigures small_freed(const RssPlan &plan)
{
    return small_freed_but(plan, 0);
}

RssFigures small_freed_64th(const RssPlan &plan)
{
    return small_freed_but(plan, 64);
}

// Each chain of threads is one thread at any time, or two: a busy machine would decide it, and the peak with it.
RssFigures larson_peak(const RssPlan &plan, Handover handover)
{
    Plan work;
    work.handover = handover;
    work.threads = 8;
    work.ops = plan.mib * 32768; // 8 Mi pairs with the usual 256
    work.warm_ops = work.ops / 10;
    work.seed = plan.seed;
    work.low = 8;
    work.high = 1000;
    work.count = 1000;
    RssFigures figures{{"start", status_kib("VmRSS")}};
    larson(work);
    figures.emplace_back("peak", status_kib("VmHWM"));
    return figures;
}

RssFigures larson_8(const RssPlan &plan)
{
    return larson_peak(plan, Handover::kInTurn);
}

RssFigures larson_8_overlap(const RssPlan &plan)
{
    return larson_peak(plan, Handover::kOverlapping);
}

// The peak is judged against the live set at its largest; `start` is what the program had before.
RssFigures peak_figures(std::uint64_t start_kib, std::uint64_t live_bytes)
{
    const std::uint64_t peak_kib = status_kib("VmHWM");
    return {{"start", start_kib}, {"live", live_bytes >> 10}, {"peak", peak_kib}, {"grown", peak_kib - start_kib}};
}

// One thread allocates 16 times the live set; another frees the oldest blocks once the live set is complete. Blocks are
// reused only if the malloc returns them to the allocating thread.
RssFigures producer_consumer(const RssPlan &plan)
{
    constexpr std::uint64_t kTimes = 16, kSlots = 1 << 16;
    struct Channel {
        std::atomic<std::uint64_t> head{0}, tail{0};
        std::atomic<Block *> slots[kSlots];
        std::atomic<bool> done{false};
    };
    const std::unique_ptr<Channel> channel = std::make_unique<Channel>();
    const std::uint64_t lag = std::clamp<std::uint64_t>((plan.mib << 20) / ((kLow + kHigh) / 2), 64, kSlots);
    std::memset(static_cast<void *>(channel->slots), 0, sizeof(channel->slots));
    const std::uint64_t start_kib = status_kib("VmRSS");
    std::atomic<std::uint64_t> freed_bytes{0};
    std::uint64_t live_bytes_max = 0;

    std::jthread consumer([&] {
        for (std::uint64_t at = 0, bytes = 0;; ++at) {
            // At least three quarters stay live; otherwise the live set would depend on this thread's speed.
            while (channel->head.load(std::memory_order_acquire) < at + lag * 3 / 4 &&
                   !channel->done.load(std::memory_order_acquire))
                std::this_thread::yield();
            if (channel->head.load(std::memory_order_acquire) == at) return; // done
            Block *const block = channel->slots[at % kSlots].load(std::memory_order_relaxed);
            freed_bytes.store(bytes += block->size, std::memory_order_relaxed);
            free(block);
            channel->tail.store(at + 1, std::memory_order_release);
        }
    });
    Draw draw(plan.seed, 0);
    std::uint64_t bytes = 0;
    for (std::uint64_t at = 0; at < kTimes * lag; ++at) {
        while (at - channel->tail.load(std::memory_order_acquire) == lag) std::this_thread::yield();
        Block *const block = fresh(draw);
        bytes += block->size;
        live_bytes_max = std::max(live_bytes_max, bytes - freed_bytes.load(std::memory_order_relaxed));
        channel->slots[at % kSlots].store(block, std::memory_order_relaxed);
        channel->head.store(at + 1, std::memory_order_release);
    }
    channel->done.store(true, std::memory_order_release);
    consumer.join();
    return peak_figures(start_kib, live_bytes_max);
}

// In each of 16 rounds, one thread allocates the live set, and another, which never allocates, frees all of it.
RssFigures free_only(const RssPlan &plan)
{
    constexpr int kRounds = 16;
    Draw draw(plan.seed, 0);
    List list;
    std::uint64_t live_bytes_max = 0;
    std::binary_semaphore filled(0), emptied(0);
    const std::uint64_t start_kib = status_kib("VmRSS");
    std::jthread freeing([&] {
        for (int round = 0; round < kRounds; ++round) {
            filled.acquire();
            list.release(0);
            emptied.release();
        }
    });
    for (int round = 0; round < kRounds; ++round) {
        list.fill(draw, plan.mib << 20);
        live_bytes_max = std::max(live_bytes_max, list.bytes());
        filled.release();
        emptied.acquire();
    }
    freeing.join();
    return peak_figures(start_kib, live_bytes_max);
}

constexpr RssRow kRows[] = {
    {"small-freed", "blocks of 16 to 1024 bytes, all written, all freed; at once, and after a while with little to do",
     small_freed},
    {"small-freed-64th", "the same, but each 64th block stays", small_freed_64th},
    {"larson-8", "the peak of larson with 8 threads", larson_8},
    {"larson-8-overlap", "the same, but each thread stays until its successor has done its part", larson_8_overlap},
    {"tiny", "a C program that mallocs 100 bytes: the memory that it does not share", nullptr},
    {"producer-consumer", "one thread allocates, another frees: the peak against the live set", producer_consumer},
    {"free-only", "rounds in which a thread that never allocates frees all that another allocated", free_only},
};

} // namespace

std::span<const RssRow> rss_rows()
{
    return kRows;
}

const RssRow *rss_row_find(std::string_view name)
{
    const auto found = std::ranges::find_if(kRows, [name](const RssRow &row) { return name == row.name; });
    return found == std::end(kRows) ? nullptr : found;
}

} // namespace bench
