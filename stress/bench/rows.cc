// The table of rows. A new row needs a line here and a function. ci/bench uses the same names.
#include <algorithm>

#include "bench/row.h"

namespace bench {
namespace {

constexpr char kApart[] = "each works apart";
constexpr char kCouples[] = "half allocate, half free";
constexpr char kMixed[] = "frees a random slot of its working set and allocates a random size into it";
constexpr char kMixedBy[] = "random-mixed: the loop of many allocator papers";
constexpr char kPlain[] = "the plain case";
constexpr char kOrder[] = "the orders in which programs free";

constexpr std::size_t kKib = 1024, kMib = 1024 * kKib;
constexpr std::uint64_t kMillion = 1000000;

// What interpreters and compilers do: 12 sizes and numbers of blocks, each freed in three orders.
constexpr char kBulkBy[] = "bulk: what compilers and interpreters do";
#define BULK(size, name, count)                                                                                      \
    {"bulk-" #size "-" name "-order",                                                                                \
     kApart,                                                                                                         \
     "allocates " name ", frees them in order",                                                                      \
     kBulkBy,                                                                                                        \
     1,                                                                                                              \
     1,                                                                                                              \
     4 * kMillion,                                                                                                   \
     size,                                                                                                           \
     size,                                                                                                           \
     count,                                                                                                          \
     fifo,                                                                                                           \
     true},                                                                                                          \
        {"bulk-" #size "-" name "-back",                                                                             \
         kApart,                                                                                                     \
         "allocates " name ", frees them backwards",                                                                 \
         kBulkBy,                                                                                                    \
         1,                                                                                                          \
         1,                                                                                                          \
         4 * kMillion,                                                                                               \
         size,                                                                                                       \
         size,                                                                                                       \
         count,                                                                                                      \
         lifo,                                                                                                       \
         true},                                                                                                      \
    {                                                                                                                \
        "bulk-" #size "-" name "-random", kApart, "allocates " name ", frees them in a random order", kBulkBy, 1, 1, \
            4 * kMillion, size, size, count, random_order, true                                                      \
    }
#define BULK_SIZES(name, count) \
    BULK(16, name, count), BULK(64, name, count), BULK(256, name, count), BULK(1024, name, count)

constexpr Row kRows[] = {
    {"mixed-128", kApart, kMixed, kMixedBy, 1, 1, 20 * kMillion, 16, 128, 256, random_mixed},
    {"mixed-256", kApart, kMixed, kMixedBy, 1, 1, 20 * kMillion, 16, 256, 256, random_mixed},
    {"mixed-512", kApart, kMixed, kMixedBy, 1, 1, 20 * kMillion, 16, 512, 256, random_mixed},
    {"mixed-1024", kApart, kMixed, kMixedBy, 1, 1, 20 * kMillion, 16, 1024, 256, random_mixed},
    {"mixed-2048", kApart, kMixed, kMixedBy, 1, 1, 10 * kMillion, 16, 2048, 256, random_mixed},
    {"mixed-4096", kApart, kMixed, kMixedBy, 1, 1, 10 * kMillion, 16, 4096, 256, random_mixed},
    {"mid-1-8k", kApart, kMixed, "the same in middle sizes", 1, 1, 10 * kMillion, 1024, 8192, 256, random_mixed},
    {"mid-8-32k", kApart, kMixed, "the same up to the largest small blocks", 1, 1, 10 * kMillion, 8 * kKib, 32 * kKib,
     256, random_mixed},
    {"large-32k-2m", kApart, "the same with sizes even on a logarithmic scale; writes both ends of a block",
     "the same in large sizes", 1, 1, kMillion / 2, 32 * kKib, 2 * kMib, 32, large_mixed},
    {"huge-2-32m", kApart, "the same; writes each page of a block", "the same in sizes of files and video frames", 1, 1,
     10000, 2 * kMib, 32 * kMib, 4, huge_mixed},
    {"tight-64", kApart, "allocates a block and frees it", kPlain, 1, 1, 40 * kMillion, 64, 64, 1, tight},
    {"tight-1024", kApart, "allocates a block and frees it", kPlain, 1, 1, 40 * kMillion, 1024, 1024, 1, tight},
    {"lifo-64", kApart, "allocates 100, frees them backwards", kOrder, 1, 1, 20 * kMillion, 64, 64, 100, lifo},
    {"lifo-1024", kApart, "allocates 100, frees them backwards", kOrder, 1, 1, 20 * kMillion, 1024, 1024, 100, lifo},
    {"fifo-64", kApart, "allocates 100, frees them in order", kOrder, 1, 1, 20 * kMillion, 64, 64, 100, fifo},
    {"fifo-1024", kApart, "allocates 100, frees them in order", kOrder, 1, 1, 20 * kMillion, 1024, 1024, 100, fifo},
    {"random-64", kApart, "allocates 1000, frees them in a random order", kOrder, 1, 1, 20 * kMillion, 64, 64, 1000,
     random_order},
    {"random-1024", kApart, "allocates 1000, frees them in a random order", kOrder, 1, 1, 10 * kMillion, 1024, 1024,
     1000, random_order},
    {"interleaved-64", kApart, "allocates 1000, frees and allocates again every other one, frees all", kOrder, 1, 1,
     20 * kMillion, 64, 64, 1000, interleaved},
    {"interleaved-1024", kApart, "allocates 1000, frees and allocates again every other one, frees all", kOrder, 1, 1,
     10 * kMillion, 1024, 1024, 1000, interleaved},
    {"short-lived-64", kApart, "a block lives while the next eight are allocated", "the objects of a request", 1, 1,
     20 * kMillion, 64, 64, 8, short_lived},
    {"short-lived-1024", kApart, "a block lives while the next eight are allocated", "the objects of a request", 1, 1,
     20 * kMillion, 1024, 1024, 8, short_lived},
    {"long-lived-64", kApart, "replaces a random one of 100000 blocks", "a cache of objects", 1, 1, 5 * kMillion, 64,
     64, 100000, random_mixed},
    {"long-lived-1024", kApart, "replaces a random one of 100000 blocks", "a cache of objects", 1, 1, 5 * kMillion,
     1024, 1024, 100000, random_mixed},
    {"larson", "each a chain of threads, one at a time",
     "replaces random ones of 1000 blocks; after 20000 a new thread takes the window", "Larson and Krishnan 1998", 1, 1,
     10 * kMillion, 8, 1000, 1000, larson},
    {"remote-free", kCouples, "couples with a ring of 1024 blocks between producer and consumer",
     "the queue between two threads", 2, 2, 10 * kMillion, 16, 1024, 1024, remote_free},
    {"all-remote", kCouples, "batches of 4096 blocks of 8 to 512 bytes through a list that all share",
     "xmalloc-test: Lever and Boreham 2000", 2, 2, 10 * kMillion, 8, 512, 4096, all_remote},
    {"mstress", "generations of threads", "keeps some blocks, frees random others, swaps some with other threads",
     "test-stress of mimalloc: Leijen 2018", 2, 1, 5 * kMillion, 8, 51200, 10000, mstress},
    {"sh8", kApart, "batches of 1000 in 12 sizes, freed four batches later in three orders", "sh8bench: MicroQuill", 1,
     1, 10 * kMillion, 16, 1000, 1000, sh8},
    {"rptest", "each has two neighbours", "replaces random ones of 1000 blocks; one in eight goes to a neighbour",
     "rpmalloc-benchmark: Jansson 2017", 2, 1, 10 * kMillion, 16, 16000, 1000, rptest},
    BULK_SIZES("1k", 1000),
    BULK_SIZES("100k", 100000),
    BULK_SIZES("1m", 1000000),
};

}  // namespace

std::span<const Row> rows()
{
    return kRows;
}

const Row *row_find(std::string_view name)
{
    const auto found = std::ranges::find_if(kRows, [name](const Row &row) { return name == row.name; });
    return found == std::end(kRows) ? nullptr : found;
}

Plan plan_of(const Row &row, std::uint32_t threads, std::uint64_t ops, std::uint64_t seed)
{
    Plan plan;
    plan.threads = threads;
    plan.ops = ops;
    plan.warm_ops =
        std::max(ops / 10, row.bulk ? std::min<std::uint64_t>(ops, row.count) : std::uint64_t{4} * threads * row.count);
    plan.seed = seed;
    plan.low = row.low;
    plan.high = row.high;
    plan.count = row.bulk ? std::max(1u, row.count / threads) : row.count;
    return plan;
}

}  // namespace bench
