// Tests inputs of the op targets: any bytes decode, encoded inputs decode to the same, and old files keep their
// meaning.
#include "fuzz/op_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "engine/base/rng.h"
#include "fuzz/boundary_sizes.h"
#include "fuzz/op_input_text.h"

namespace fuzz {
namespace {

using stress::op_size;
using stress::Rng;
using testing::HasSubstr;

std::vector<std::uint8_t> random_bytes(Rng &rng, std::size_t count)
{
    std::vector<std::uint8_t> bytes(count);
    for (std::uint8_t &byte : bytes) byte = static_cast<std::uint8_t>(rng.below(256));
    return bytes;
}

const OpShape *const kShapes[] = {&kShapeOps, &kShapeOpsMt};

void expect_in_range(const OpInput &input, const OpShape &shape)
{
    EXPECT_GE(input.threads, 1);
    EXPECT_LE(input.threads, shape.threads_max);
    EXPECT_LE(input.ops.size(), kOpInputOpsMax);
    for (const Op &op : input.ops) {
        EXPECT_LT(op.thread, input.threads);
        EXPECT_LT(op.slot, kOpInputSlots);
        const OpStop stop = op_stop(op);
        EXPECT_LE(stop.point, kOpStopPointMax);
        EXPECT_LE(stop.ops, kOpStopOpsMax);
        EXPECT_EQ(stop.point == 0, stop.ops == 0);
        EXPECT_TRUE(stop == OpStop() || op_input_stops(op.kind, shape));
    }
    OpInput normal = input;
    op_input_normalise(normal, shape);
    EXPECT_EQ(normal, input);
}

TEST(OpInput, AnyBytesDecodeAndAreEncodedTheSame)
{
    Rng rng(7, 0);
    for (int round = 0; round < 3000; ++round) {
        const std::vector<std::uint8_t> bytes = random_bytes(rng, rng.below(rng.one_in(4) ? 9000 : 200));
        for (const OpShape *shape : kShapes) {
            const OpInput input = op_input_decode(bytes, *shape);
            expect_in_range(input, *shape);
            const auto encoded = op_input_encode(input);
            ASSERT_LE(encoded.size(), shape->bytes_max());
            ASSERT_EQ(op_input_decode(encoded, *shape), input) << "round " << round;
            ASSERT_EQ(op_input_encode(op_input_decode(encoded, *shape)), encoded);
        }
    }
}

TEST(OpInput, ShortBytesAreAnInputWithoutOps)
{
    for (std::size_t count = 0; count < kOpInputHeadBytes + sizeof(Op); ++count) {
        const OpInput input = op_input_decode(std::vector<std::uint8_t>(count, 0xff), kShapeOpsMt);
        EXPECT_TRUE(input.ops.empty()) << count;
    }
}

TEST(OpInput, NoMoreThanSoManyOps)
{
    const std::vector<std::uint8_t> bytes(kOpInputHeadBytes + (kOpInputOpsMax + 3) * sizeof(Op), 0);
    EXPECT_EQ(op_input_decode(bytes, kShapeOps).ops.size(), kOpInputOpsMax);
}

// Every size that an op can hold and a fuzzer may want.
TEST(OpInput, EachBoundarySizeIsEncodedAsItIs)
{
    OpInput input;
    for (const std::size_t size : boundary_sizes()) {
        input.ops = {stress::op_make(OpKind::Malloc, 3, size)};
        const OpInput again = op_input_decode(op_input_encode(input), kShapeOps);
        ASSERT_EQ(op_size(again.ops.at(0)), size);
    }
}

TEST(OpInput, LargeSizesAreReachedAndRare)
{
    Rng rng(3, 0);
    std::size_t small = 0, runs = 0, huge = 0, negative = 0, all = 0;
    for (int round = 0; round < 200; ++round) {
        for (const Op &op : op_input_decode(random_bytes(rng, 4100), kShapeOps).ops) {
            if (op.kind != OpKind::Malloc) continue;
            ++all;
            const std::size_t size = op_size(op);
            small += size <= 1024 ? 1 : 0;
            runs += size > 32768 && size <= (2 << 20) ? 1 : 0;
            huge += size > (2 << 20) && size <= PTRDIFF_MAX ? 1 : 0;
            negative += size > PTRDIFF_MAX ? 1 : 0;
        }
    }
    EXPECT_GT(small, all / 2);
    EXPECT_GT(runs, all / 20);
    EXPECT_LT(runs, all / 4);
    EXPECT_GT(huge, 0U);
    EXPECT_LT(huge, all / 10);
    EXPECT_GT(negative, 0U);
}

// By chance 2 of 100 ops from random bytes have no stop. Ops of kinds without stops, and of shapes without stops, never
// have one.
TEST(OpInput, StopsAreOfTheShapeAndTheKind)
{
    Rng rng(17, 0);
    const auto bytes = random_bytes(rng, 4100);
    for (const Op &op : op_input_decode(bytes, kShapeOps).ops) EXPECT_EQ(op.link, 0U);
    std::map<OpKind, int> stops;
    std::size_t count = 0, all = 0;
    for (int round = 0; round < 10; ++round) {
        for (const Op &op : op_input_decode(random_bytes(rng, 4100), kShapeOpsMt).ops) {
            stops[op.kind] += op_stop(op).point != 0 ? 1 : 0;
            count += op_stop(op).point != 0 ? 1 : 0;
            all += op_input_stops(op.kind, kShapeOpsMt) ? 1 : 0;
        }
    }
    for (const OpKind kind : op_input_kinds())
        EXPECT_EQ(stops[kind] > 50, kind != OpKind::Sleep && kind != OpKind::FailOs) << static_cast<int>(kind);
    EXPECT_EQ(stops[OpKind::Sleep] + stops[OpKind::FailOs], 0);
    EXPECT_GT(count, all * 9 / 10);
}

TEST(OpInput, ReservedBytesAreIgnoredAndWrittenZero)
{
    Rng rng(19, 0);
    auto bytes = random_bytes(rng, 1000);
    const OpInput input = op_input_decode(bytes, kShapeOpsMt);
    bytes[2] = static_cast<std::uint8_t>(~bytes[2]);
    bytes[3] = static_cast<std::uint8_t>(~bytes[3]);
    EXPECT_EQ(op_input_decode(bytes, kShapeOpsMt), input);
    const auto encoded = op_input_encode(input);
    EXPECT_EQ(encoded[2], 0);
    EXPECT_EQ(encoded[3], 0);
}

// Each byte of an op matters for some op: changing it changes the decoded op.
TEST(OpInput, NoByteOfAnOpIsDead)
{
    Rng rng(11, 0);
    std::vector<int> seen(sizeof(Op));
    for (int round = 0; round < 400; ++round) {
        auto bytes = random_bytes(rng, kOpInputHeadBytes + sizeof(Op));
        bytes[1] = 4;
        const OpInput before = op_input_decode(bytes, kShapeOpsMt);
        for (std::size_t i = 0; i < sizeof(Op); ++i) {
            auto changed = bytes;
            std::uint8_t &byte = changed[kOpInputHeadBytes + i];
            byte = static_cast<std::uint8_t>(byte ^ (1 + rng.below(255)));
            seen[i] += op_input_decode(changed, kShapeOpsMt) == before ? 0 : 1;
        }
    }
    for (std::size_t i = 0; i < sizeof(Op); ++i) EXPECT_GT(seen[i], i == 1 ? 60 : 100) << "byte " << i;
}

// The argument, the slot and the size in a file of version 1 never change their meaning.
TEST(OpInput, AFileOfVersion1DecodesTheSameWhenKindsAreAdded)
{
    const OpFormat today = op_input_format();
    std::vector<OpKind> kinds(today.kinds.begin(), today.kinds.end());
    kinds.insert(kinds.end(), {OpKind::Fork, OpKind::Signals, OpKind::Dlopen});
    std::vector<std::uint8_t> counts(today.kind_counts.begin(), today.kind_counts.end());
    counts.push_back(static_cast<std::uint8_t>(kinds.size()));
    const OpFormat later{kinds, counts};
    Rng rng(5, 0);
    bool differs = false;
    for (int round = 0; round < 500; ++round) {
        auto bytes = random_bytes(rng, 1000);
        for (std::size_t version = 1; version <= today.kind_counts.size(); ++version) {
            bytes[0] = static_cast<std::uint8_t>(version);
            ASSERT_EQ(op_input_decode(bytes, kShapeOpsMt, later), op_input_decode(bytes, kShapeOpsMt));
        }
        bytes[0] = 0; // not a version: read as the first
        ASSERT_EQ(op_input_decode(bytes, kShapeOpsMt, later), op_input_decode(bytes, kShapeOpsMt));
        const OpInput before = op_input_decode(bytes, kShapeOpsMt);
        bytes[0] = static_cast<std::uint8_t>(counts.size());
        differs |= !(op_input_decode(bytes, kShapeOpsMt, later) == before);
    }
    EXPECT_TRUE(differs) << "the version was not looked at";
}

std::string file_of(const std::string &name)
{
    std::ifstream file(std::string(FUZZ_GOLDEN) + "/" + name, std::ios::binary);
    EXPECT_TRUE(file.good()) << name;
    return {std::istreambuf_iterator<char>(file), {}};
}

// Bytes that a fuzzer could have written, stored with their meaning when version 1 was new.
TEST(OpInput, GoldenFilesMeanWhatTheyMeant)
{
    for (const auto &[name, shape] : {std::pair("ops_1", &kShapeOps), std::pair("ops_mt_1", &kShapeOpsMt)}) {
        const std::string bytes = file_of(std::string(name) + ".bin"), text = file_of(std::string(name) + ".txt");
        const auto *start = reinterpret_cast<const std::uint8_t *>(bytes.data());
        const OpInput input = op_input_decode({start, bytes.size()}, *shape);
        EXPECT_EQ(op_input_print(input), text);
        std::map<OpKind, int> kinds;
        for (const Op &op : input.ops) ++kinds[op.kind];
        EXPECT_EQ(kinds.size(), 16U) << "each kind of version 1 is in the file";
    }
}

TEST(OpInput, PrintsAndParsesBack)
{
    Rng rng(13, 0);
    for (int round = 0; round < 500; ++round) {
        for (const OpShape *shape : kShapes) {
            const OpInput input = op_input_decode(random_bytes(rng, rng.below(3000)), *shape);
            OpInput again;
            ASSERT_EQ(op_input_parse(op_input_print(input), *shape, again), "") << op_input_print(input);
            ASSERT_EQ(again, input);
        }
    }
}

TEST(OpInput, TextThatIsNoInputIsRefusedInOneLine)
{
    const std::pair<const char *, const char *> cases[] = {
        {"b0 = malloc(10", "line 1"},
        {"b64 = malloc(10);", "no input has the op b64 = malloc(10);"},
        {"fork(1, 1);", "no input has the op fork"},
        {"repeat 257 step 0 {\nb0 = malloc(1);\n}\n", "257 ops"},
        {"threads 5\nT4: b0 = malloc(1);", "5 threads"},
        {"b0 = malloc(1);\nfree(b0);  # stops at 128 for 1 ops", "line 2: a stop is '# stops at POINT for COUNT ops'"},
        {"free(b0);  # stops at 0 for 1 ops", "line 1: a stop is"},
        {"free(b0);  # stops at 1 for 16 ops", "line 1: a stop is"},
        {"free(b0);  # stops at 1 for 0 ops", "line 1: a stop is"},
        {"free(b0);  # stops at 1 for 1 ops more", "line 1: a stop is"},
        {"free(b0);  # stops at the end", "line 1: a stop is"},
        {"free(b0);\n# stops at 1 for 1 ops", "line 2: a stop stands behind an op"},
        {"repeat 2 step 0 { # stops at 1 for 1 ops\nfree(b0);\n}", "line 1: a stop stands behind an op"},
        {"threads 2 # stops at 1 for 1 ops\nfree(b0);", "line 1: a stop stands behind an op"},
        {"sleep_ms(3);  # stops at 1 for 1 ops", "no input of this target has a stop in the op sleep_ms(3);"},
        {"fail_os(3);  # stops at 1 for 1 ops", "no input of this target has a stop in the op fail_os(3);"},
    };
    for (const auto &[text, says] : cases) {
        OpInput input;
        const std::string fault = op_input_parse(text, kShapeOpsMt, input);
        EXPECT_THAT(fault, HasSubstr(says)) << text;
        EXPECT_EQ(fault.find('\n'), std::string::npos);
    }
    OpInput input;
    EXPECT_THAT(op_input_parse("threads 2\nb0 = malloc(1);", kShapeOps, input), HasSubstr("2 threads"));
    EXPECT_THAT(op_input_parse("b0 = malloc(1);  # stops at 1 for 1 ops", kShapeOps, input),
                HasSubstr("no input of this target has a stop in the op b0 = malloc(1);"));
    EXPECT_EQ(op_input_parse("repeat 2 step 1 {\nb0 = malloc(1);\n}\n", kShapeOps, input), "");
    ASSERT_EQ(input.ops.size(), 2U);
    EXPECT_EQ(input.ops[1].slot, 1U);
}

TEST(OpInput, StopsStandInCommentsBehindTheirOps)
{
    OpInput input;
    const std::string text = "allocator a;{ # stops at 9 for 9 ops\nthreads 2\n// stops follow below\n"
                             "free(b1); T1: free(b2);// stops at 7 for 3 ops \r\n"
                             "repeat 2 step 1 {\n  b3 = malloc(1);  # stops at 127 for 15 ops\n}\nfree(b5);  # ends\n";
    ASSERT_EQ(op_input_parse(text, kShapeOpsMt, input), "");
    ASSERT_EQ(input.ops.size(), 5U);
    const OpStop expected[] = {{}, {7, 3}, {127, 15}, {127, 15}, {}};
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(op_stop(input.ops[i]), expected[i]) << i;
    EXPECT_THAT(op_input_print(input), HasSubstr("free(b1);\nT1: free(b2);  # stops at 7 for 3 ops\n"
                                                 "b3 = malloc(1);  # stops at 127 for 15 ops\n"));
}

// Links that a recorded program keeps are not stops.
TEST(OpInput, KeptLinksAreLeftOut)
{
    OpInput input;
    const char *text = "threads 2\nlinks kept\nb0 = malloc(1) link 1;\nT1: free(b0) link 2;\n";
    ASSERT_EQ(op_input_parse(text, kShapeOpsMt, input), "");
    ASSERT_EQ(input.ops.size(), 2U);
    EXPECT_EQ(input.ops[0].link + input.ops[1].link, 0U);
    for (const Op &op : op_input_program(input).ops) EXPECT_EQ(op.link, 0U);
}

// Each op of the program is in one input, in order, but for those that no input has and those on blocks of an earlier one.
TEST(OpInput, AProgramOfAnyLengthIsCut)
{
    Rng rng(3, 0);
    stress::OpList ops;
    std::map<std::uint32_t, bool> live;
    for (std::size_t size = 1; size <= 3000; ++size) { // no two blocks have the same
        const auto slot = static_cast<std::uint32_t>(1000 + rng.below(20));
        const bool frees = live[slot];
        live[slot] = !frees;
        Op op = stress::op_make(frees ? OpKind::Free : OpKind::Malloc, slot, frees ? 0 : size, 0, 7);
        op.thread = static_cast<std::uint16_t>(40 + rng.below(9));
        ops.push_back(op);
        if (size % 100 == 0) ops.push_back(stress::op_make(OpKind::Fork, 0));
    }
    const auto malloced =
        static_cast<std::size_t>(std::ranges::count_if(ops, [](const Op &op) { return op.kind == OpKind::Malloc; }));
    for (const OpShape *shape : kShapes) {
        std::size_t last_size = 0, blocks = 0, freed = 0, threads = 0;
        const std::vector<OpInput> inputs = op_input_cut(ops, *shape);
        for (const OpInput &input : inputs) {
            expect_in_range(input, *shape);
            EXPECT_EQ(input.ops.size() == kOpInputCutOps, &input != &inputs.back());
            EXPECT_EQ(op_input_decode(op_input_encode(input), *shape), input);
            threads = std::max<std::size_t>(threads, input.threads);
            EXPECT_EQ(input.ops[0].thread, 0) << "each input numbers its threads from 0";
            std::map<std::uint32_t, bool> full;
            for (const Op &op : input.ops) {
                EXPECT_EQ(op.link, 0);
                EXPECT_EQ(full[op.slot], op.kind == OpKind::Free) << "a slot that is taken, or no block of this input";
                full[op.slot] = op.kind == OpKind::Malloc;
                if (op.kind == OpKind::Malloc) {
                    EXPECT_GT(op_size(op), last_size) << "not in order, or twice";
                    last_size = op_size(op);
                    ++blocks;
                } else {
                    ++freed;
                }
            }
        }
        EXPECT_EQ(blocks, malloced);
        EXPECT_GT(freed, malloced / 2);
        EXPECT_EQ(threads, shape->threads_max);
    }
}

// A realloc moves on to a later input; usable_size of such a block does not.
TEST(OpInput, ABlockOfAnEarlierInputIsAllocatedByRealloc)
{
    stress::OpList ops;
    for (std::size_t i = 0; i < kOpInputCutOps; ++i) ops.push_back(stress::op_make(OpKind::Malloc, 5, 100));
    for (const OpKind kind : {OpKind::UsableSize, OpKind::Realloc, OpKind::UsableSize, OpKind::Free, OpKind::Free})
        ops.push_back(stress::op_make(kind, 5, kind == OpKind::Realloc ? 200 : 0));
    const std::vector<OpInput> inputs = op_input_cut(ops, kShapeOps);
    ASSERT_EQ(inputs.size(), 2U);
    std::vector<OpKind> kinds;
    for (const Op &op : inputs[1].ops) kinds.push_back(op.kind);
    EXPECT_EQ(kinds, (std::vector<OpKind>{OpKind::Realloc, OpKind::UsableSize, OpKind::Free, OpKind::Free}));
    EXPECT_EQ(op_input_cut({}, kShapeOps).size(), 0U);
}

} // namespace
} // namespace fuzz
