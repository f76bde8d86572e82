// A subject that answers as the test says, and an interpreter on it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/op/content.h"
#include "engine/seat/interp.h"

namespace stress {

// Blocks of the subject are here. It is zero up to 64 KiB when a test begins.
alignas(4096) inline unsigned char memory[6 << 20];

struct Fake {
    std::string calls; // since the last look
    std::size_t at = 4096; // where the next block is
    bool refuses = false;
    std::size_t most = SIZE_MAX; // larger requests are refused with ENOMEM
    std::string silent = "none"; // the function that leaves errno as it was then
    int error = 0; // what a call does to errno, or posix_memalign returns
    static constexpr std::size_t kAsGiven = SIZE_MAX - 1;
    std::size_t usable = kAsGiven, given = 0; // given: the bytes of the last block
    bool moves = true; // whether realloc copies
    bool spoils = false; // whether realloc changes a byte of the block that it does not move
};
inline Fake fake;

// "block" or "null", so that addresses do not matter.
inline std::string named(const void *start)
{
    return start == nullptr ? "null" : "block";
}

inline void *answer(const std::string &call, std::size_t size_bytes)
{
    fake.calls += call + " ";
    if (size_bytes > fake.most) {
        if (!call.starts_with(fake.silent)) errno = ENOMEM;
        return nullptr;
    }
    if (fake.error != 0) errno = fake.error;
    fake.given = size_bytes;
    return fake.refuses ? nullptr : memory + fake.at;
}

inline void *resized(const std::string &call, void *old, std::size_t size_bytes)
{
    void *start = answer(call, size_bytes);
    if (fake.spoils) static_cast<unsigned char *>(old)[7] ^= 1;
    if (start != nullptr && old != nullptr && fake.moves)
        std::memmove(start, old, std::min<std::size_t>(size_bytes, 100));
    return start;
}

inline std::string two(std::size_t one, std::size_t other)
{
    return "(" + std::to_string(one) + "," + std::to_string(other) + ")";
}

inline void fake_free_sized(void *start, std::size_t size_bytes) noexcept
{
    fake.calls += "free_sized(" + named(start) + "," + std::to_string(size_bytes) + ") ";
}

inline void fake_free_aligned_sized(void *start, std::size_t align_bytes, std::size_t size_bytes) noexcept
{
    fake.calls += "free_aligned_sized(" + named(start) + ")" + two(align_bytes, size_bytes) + " ";
}

class InterpTest : public testing::Test {
  protected:
    static constexpr Support kNone{false, false, false, false, false, false, nullptr, nullptr};
    static constexpr Support kAll{true, true, true, true, true, true, fake_free_sized, fake_free_aligned_sized};

    std::atomic<bool> stop{false};
    FailureLog failures{stop};
    ClaimMap claims;
    Oracle oracle{claims, failures};
    Slots slots{8};
    InterpShared shared{oracle, slots, stop};
    Counters counters, plain_counters;
    Interp checked{shared, counters, kAll, 1, true};
    Interp plain{shared, plain_counters, kAll, 1, false};
    OpOutcome outcomes[64] = {};
    Trace trace{outcomes, 64};
    std::size_t noted = 0;

    InterpTest()
    {
        fake = Fake();
        std::memset(memory, 0, 64 << 10);
        checked.trace = &trace;
    }

    Block &block(std::uint32_t slot = 0) { return slots.blocks[slot]; }

    // What the subject was asked, how it ended, and the outcome: "malloc(8) Done Given". An outcome names the error, and
    // whether it is unsound.
    std::string apply(Interp &interp, const Op &op)
    {
        fake.calls.clear();
        const Applied applied = interp.apply(op);
        std::string text = fake.calls + (applied == Applied::Done     ? "Done"
                                         : applied == Applied::Failed ? "Failed"
                                                                      : "Waiting");
        if (!interp.checks()) return text;
        if (applied == Applied::Waiting) return text;
        const OpOutcome &outcome = outcomes[noted++];
        static constexpr const char *results[] = {" Skipped", " Null", " Given", " Freed"};
        text += results[outcome.result];
        if (outcome.error != 0) text += " error " + std::to_string(outcome.error);
        if (outcome.sound == 0) text += " unsound";
        if (outcome.aligned == 0) text += " misaligned";
        if (outcomes[noted].sound != 0) text += " and another outcome";
        return text;
    }

    std::string apply(OpKind kind, std::uint32_t slot, std::size_t size_bytes = 0, std::uint8_t arg = 0)
    {
        return apply(checked, op_make(kind, slot, size_bytes, arg));
    }

    std::string run_plain(OpKind kind, std::uint32_t slot, std::size_t size_bytes = 0, std::uint8_t arg = 0)
    {
        return apply(plain, op_make(kind, slot, size_bytes, arg));
    }

    // ops, blocks and bytes allocated, blocks and bytes freed, refused, handed over, judged.
    std::string counted(const Counters &of)
    {
        std::uint64_t judged = 0;
        for (const auto &each : of.judged) judged += read(each);
        std::string text;
        for (const std::uint64_t value :
             {read(of.ops), read(of.blocks_allocated), read(of.bytes_allocated), read(of.blocks_freed),
              read(of.bytes_freed), read(of.refused), read(of.handed_over), judged})
            text += std::to_string(value) + " ";
        return text;
    }

    std::string rule() { return failures.size() == 0 ? "" : failures[failures.size() - 1].rule; }
    std::uint64_t judged(OpKind kind) { return read(counters.judged[static_cast<std::size_t>(kind)]); }

    // A failure is expected: the outcome, and the rule.
    void expect_fault(const std::string &got, const std::string &outcome, const char *rule_name)
    {
        EXPECT_EQ(got, outcome);
        EXPECT_EQ(rule(), rule_name);
        EXPECT_TRUE(stop);
        stop = false;
    }
};

} // namespace stress
