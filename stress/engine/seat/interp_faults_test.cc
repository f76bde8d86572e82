// The interpreter on a subject that the test fakes: what it makes of each wrong answer, and of each refusal.
#include <gtest/gtest.h>

#include <string>

#include "engine/seat/interp_for_test.h"

namespace stress {
namespace {

TEST_F(InterpTest, ReallocThatChangesOrKeepsTooLittleIsAFault)
{
    apply(OpKind::Malloc, 0, 100);
    memory[4096 + 50] ^= 1;
    expect_fault(apply(OpKind::Realloc, 0, 80), "Failed Skipped unsound", rule::kContent);
    memory[4096 + 50] ^= 1;

    apply(OpKind::Malloc, 1, 0); // the claim of the first has not ended
    fake.at = 8192;
    apply(OpKind::Malloc, 2, 100);
    fake.at = 16384;
    fake.moves = false;
    expect_fault(apply(OpKind::Realloc, 2, 80), "realloc(block,80) usable_size Failed Given unsound",
                 rule::kReallocContent);
    EXPECT_EQ(block(2).start, nullptr) << "nobody knows what it is";

    fake.moves = true;
    fake.at = 20480;
    apply(OpKind::Malloc, 3, 100);
    fake.at = 24576;
    fake.usable = 119;
    expect_fault(apply(OpKind::Realloc, 3, 120), "realloc(block,120) usable_size Failed Given unsound",
                 rule::kUsableSize);
    EXPECT_EQ(judged(OpKind::Realloc), 0u);
}

TEST_F(InterpTest, ABlockThatIsNotSoundIsAFault)
{
    fake.at = 4096 + 8;
    expect_fault(apply(OpKind::Malloc, 0, 100), "malloc(100) usable_size Failed Given unsound misaligned",
                 rule::kAlignment);
    EXPECT_EQ(block().start, nullptr);
    fake.at = 4096;
    memory[4096 + 9] = 7;
    expect_fault(apply(OpKind::Calloc, 0, 10, 1), "calloc(1,10) usable_size Failed Given unsound", rule::kCallocZero);
    fake.at = 8192;
    fake.usable = 99;
    expect_fault(apply(OpKind::Malloc, 0, 100), "malloc(100) usable_size Failed Given unsound", rule::kUsableSize);
    expect_fault(apply(OpKind::Realloc, 0, 100), "realloc(null,100) usable_size Failed Given unsound", rule::kOverlap);
    fake.usable = Fake::kAsGiven;
    fake.at = 12288;
    EXPECT_EQ(apply(OpKind::Realloc, 0, 100), "realloc(null,100) usable_size Done Given");
    fake.usable = 99;
    expect_fault(apply(OpKind::UsableSize, 0), "usable_size Failed Skipped unsound", rule::kUsableSize);
    memory[12288] ^= 1;
    expect_fault(apply(OpKind::Check, 0), "Failed Skipped unsound", rule::kContent);
    expect_fault(apply(OpKind::Free, 0), "Failed Freed unsound", rule::kContent);
    EXPECT_EQ(block().start, nullptr) << "it is not freed, and not kept";
    EXPECT_EQ(counted(counters), "8 1 100 0 0 0 0 3 ");
}

TEST_F(InterpTest, AFreeThatChangesErrnoIsAFault)
{
    apply(OpKind::Malloc, 0, 100);
    fake.error = EINVAL;
    expect_fault(apply(OpKind::Free, 0), "free(block) Failed Freed error 22", rule::kErrnoKept);
    EXPECT_EQ(counted(counters), "2 1 100 1 100 0 0 2 ") << "it has freed";
}

// NULL is right for a request that cannot be met, or of nothing, or while memory is scarce. ENOMEM is 12.
TEST_F(InterpTest, WhatARefusalMeans)
{
    constexpr std::size_t ordinary = std::size_t{256} << 20;
    fake.refuses = true;
    fake.error = ENOMEM;
    EXPECT_EQ(apply(OpKind::Malloc, 0, 0), "malloc(0) Done Null error 12");
    EXPECT_EQ(apply(OpKind::Malloc, 0, ordinary + 1), "malloc(268435457) Done Null error 12");
    EXPECT_EQ(apply(OpKind::Malloc, 0, SIZE_MAX), "malloc(18446744073709551615) Done Null error 12");
    EXPECT_EQ(run_plain(OpKind::Malloc, 0, ordinary + 1), "malloc(268435457) Done");
    EXPECT_EQ(run_plain(OpKind::Malloc, 0, 0), "malloc(0) Done");
    EXPECT_EQ(counted(counters), "3 0 0 0 0 0 0 0 ") << "not the scarce ones that are counted";
    expect_fault(apply(OpKind::Malloc, 0, ordinary), "malloc(268435456) Failed Null error 12", rule::kExhausted);
    expect_fault(run_plain(OpKind::Malloc, 0, ordinary), "malloc(268435456) Failed", rule::kExhausted);
    expect_fault(apply(OpKind::PosixMemalign, 0, 100, 6), "posix_memalign(64,100) Failed Null error 12",
                 rule::kExhausted);
    EXPECT_STREQ(failures[2].detail, "posix_memalign of 100 bytes aligned to 64 returned NULL with errno ENOMEM; "
                                     "seen by thread 1 at its op 5");
    expect_fault(run_plain(OpKind::Memalign, 0, 100, 6), "memalign(64,100) Failed", rule::kExhausted);
    EXPECT_NE(std::string(failures[3].detail).find("memalign of 100 bytes aligned to 64 "), std::string::npos);
    expect_fault(run_plain(OpKind::Calloc, 0, 100, 6), "calloc(6,100) Failed", rule::kExhausted);
    EXPECT_NE(std::string(failures[4].detail).find("calloc of 600 bytes returned"), std::string::npos);
    fake.error = EINVAL;
    EXPECT_EQ(apply(OpKind::Calloc, 0, SIZE_MAX - 5, 200), "calloc(200,18446744073709551610) Done Null error 22")
        << "only strict runs judge the errno of a size that cannot exist";
    EXPECT_EQ(run_plain(OpKind::Malloc, 0, ordinary + 1), "malloc(268435457) Done");
    expect_fault(apply(OpKind::Malloc, 0, ordinary + 1), "malloc(268435457) Failed Null error 22", rule::kEnomem);
    expect_fault(apply(OpKind::Malloc, 0, 100), "malloc(100) Failed Null error 22", rule::kEnomem);
    fake.refuses = false;
    expect_fault(apply(OpKind::Malloc, 0, SIZE_MAX), "malloc(18446744073709551615) Failed Given", rule::kEnomem);
    fake.error = 0;
    EXPECT_EQ(failures.size(), 8u);
}

TEST_F(InterpTest, WhileMemoryIsScarceARefusalIsCounted)
{
    fake.refuses = true;
    fake.error = ENOMEM;
    shared.scarce_begin();
    EXPECT_EQ(apply(OpKind::Malloc, 0, 100), "malloc(100) Done Null error 12");
    EXPECT_EQ(run_plain(OpKind::Malloc, 0, 100), "malloc(100) Done");
    EXPECT_EQ(counted(counters), "1 0 0 0 0 1 0 0 ");
    EXPECT_EQ(counted(plain_counters), "1 0 0 0 0 1 0 0 ");
    fake.error = EAGAIN;
    expect_fault(apply(OpKind::Malloc, 0, 100), "malloc(100) Failed Null error 11", rule::kEnomem);
    shared.scarce_end();
    fake.error = ENOMEM;
    expect_fault(apply(OpKind::Malloc, 0, 100), "malloc(100) Failed Null error 12", rule::kExhausted);
}

TEST_F(InterpTest, ARefusedReallocLeavesTheBlock)
{
    apply(OpKind::Malloc, 0, 100);
    fake.refuses = true;
    fake.error = ENOMEM;
    const Block before = block();
    EXPECT_EQ(apply(OpKind::Realloc, 0, SIZE_MAX), "realloc(block,18446744073709551615) Done Null error 12");
    EXPECT_EQ(run_plain(OpKind::Realloc, 0, SIZE_MAX), "realloc(block,18446744073709551615) Done");
    EXPECT_EQ(std::memcmp(&before, &block(), sizeof before), 0);
    EXPECT_EQ(claims.claim(memory + 4096, 100), reinterpret_cast<std::uintptr_t>(memory + 4096)) << "it lives";
    expect_fault(run_plain(OpKind::Realloc, 0, 80), "realloc(block,80) Failed", rule::kExhausted);
    expect_fault(apply(OpKind::Realloc, 0, 80), "realloc(block,80) Failed Null error 12", rule::kExhausted);
    fake.refuses = false;
    expect_fault(apply(OpKind::ReallocArray, 0, SIZE_MAX, 3),
                 "reallocarray(block)(3,18446744073709551615) Failed Given", rule::kEnomem);
    EXPECT_EQ(counted(counters), "4 1 100 0 0 0 0 1 ");
}

TEST_F(InterpTest, ARefusedReallocThatChangesTheBlockIsAFault)
{
    apply(OpKind::Malloc, 0, 100);
    fake.refuses = fake.spoils = true;
    fake.error = ENOMEM;
    shared.scarce_begin();
    expect_fault(apply(OpKind::Realloc, 0, 200), "realloc(block,200) Failed Null error 12 unsound",
                 rule::kReallocContent);
    EXPECT_EQ(counted(counters), "2 1 100 0 0 0 0 1 ") << "a fault is no refusal";
}

TEST_F(InterpTest, AProbeOfRecoveryAsksOncePerSize)
{
    EXPECT_TRUE(checked.probe_recovery());
    std::string wanted;
    for (const char *size : {"16", "500", "3000", "20000", "300000", "5242880"})
        wanted += "malloc(" + std::string(size) + ") usable_size free(block) ";
    EXPECT_EQ(fake.calls, wanted);
    EXPECT_EQ(read(counters.ops), 6u);
    fake.error = EINVAL; // by free
    EXPECT_FALSE(checked.probe_recovery());
    fake.refuses = true;
    fake.error = ENOMEM;
    shared.scarce_begin();
    shared.scarce_end();
    EXPECT_FALSE(checked.probe_recovery()) << "it was scarce before, not now";
}

// A refusal that leaves errno as it was says nothing of memory, whatever was in errno before.
TEST_F(InterpTest, ErrnoOfACallBeforeDoesNotCount)
{
    apply(OpKind::Malloc, 0, 100);
    fake.refuses = true;
    errno = ENOMEM;
    expect_fault(apply(OpKind::Malloc, 1, 100), "malloc(100) Failed Null", rule::kEnomem);
    errno = ENOMEM;
    expect_fault(apply(OpKind::Realloc, 0, 120), "realloc(block,120) Failed Null", rule::kEnomem);
    fake.refuses = false;
    fake.most = 100;
    fake.at = 16384;
    for (const char *silent : {"malloc", "calloc", "realloc"}) {
        fake.silent = silent;
        errno = ENOMEM;
        EXPECT_FALSE(checked.probe_impossible()) << silent;
        EXPECT_EQ(rule(), rule::kEnomem);
    }
    fake.at = 32768;
    fake.error = ENOMEM; // of the malloc before, which succeeds
    EXPECT_FALSE(checked.probe_impossible());
    EXPECT_EQ(rule(), rule::kEnomem);
    EXPECT_NE(fake.calls.find("realloc("), std::string::npos);
    EXPECT_EQ(failures.size(), 6u);
}

TEST_F(InterpTest, AProbeOfTheImpossiblePasses)
{
    fake.most = 100;
    EXPECT_TRUE(checked.probe_impossible());
    EXPECT_EQ(fake.calls, "malloc(18446744073709547519) calloc(9223372036854775807,4) malloc(100) usable_size "
                          "realloc(block,9223372036854775809) free(block) ");
    EXPECT_EQ(rule(), "");
    EXPECT_EQ(counted(counters), "0 1 100 1 100 0 0 2 ") << "they are no ops of the seat";
    fake.error = EINVAL; // of free
    EXPECT_FALSE(checked.probe_impossible());
    EXPECT_EQ(rule(), rule::kErrnoKept);
    fake.error = 0;
    fake.most = SIZE_MAX / 2 + 2; // realloc gives a block
    EXPECT_FALSE(checked.probe_impossible());
    EXPECT_EQ(rule(), rule::kEnomem);
    EXPECT_NE(std::string(failures[1].detail).find(" for 0x8000000000000001 bytes"), std::string::npos);
    EXPECT_NE(fake.calls.rfind("realloc(block,9223372036854775809) "), std::string::npos);
    EXPECT_FALSE(fake.calls.ends_with("free(block) "));
}

TEST_F(InterpTest, AProbeOfTheImpossibleAsksThreeTimes)
{
    fake.refuses = true;
    fake.error = ENOMEM;
    EXPECT_FALSE(checked.probe_impossible()) << "the ordinary block between";
    EXPECT_EQ(fake.calls, "malloc(18446744073709547519) calloc(9223372036854775807,4) malloc(100) ");
    EXPECT_EQ(rule(), rule::kExhausted);
    fake.error = EINVAL;
    EXPECT_FALSE(checked.probe_impossible());
    EXPECT_EQ(rule(), rule::kEnomem);
    fake.refuses = false;
    EXPECT_FALSE(checked.probe_impossible());
}

} // namespace
} // namespace stress
