// Crash records: a written record is read back; anything else is refused, whatever its bytes.
#include "record/record_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/base/rng.h"
#include "record/record_report.h"

namespace stress {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string bytes_of(std::uint64_t value, int count)
{
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i & 255);
    return bytes;
}

std::string number(std::uint64_t value)
{
    return bytes_of(value, 8);
}

std::string field(std::uint32_t id, const std::string &payload)
{
    return bytes_of(id, 4) + bytes_of(payload.size(), 4) + payload;
}

std::string whole(const std::string &fields, std::uint32_t version = RECORD_VERSION)
{
    const std::string bytes = RECORD_MAGIC + bytes_of(version, 4) + fields + bytes_of(RECORD_END, 4) + bytes_of(4, 4);
    return bytes + bytes_of(record_crc32(bytes), 4);
}

std::string place(std::uint64_t address, std::uint64_t words, const std::string &of)
{
    std::string payload;
    for (int i = 0; i < RECORD_PLACE_NUMBERS - 1; ++i)
        payload += number(i == 0 ? address : static_cast<std::uint64_t>(i));
    payload += number(words);
    for (std::uint64_t i = 0; i < words; ++i) payload += number(100 + i);
    return payload + bytes_of(of.size(), 1) + of;
}

// A record with every kind of field, and one field that no reader knows.
std::string sample()
{
    return whole(
        field(RECORD_signal, number(11)) + field(RECORD_signal_code, number(1)) +
        field(RECORD_fault_address, number(0xdead0000beefULL)) + field(RECORD_register, number(77) + "rip") +
        field(RECORD_register, number(78) + "rsp") +
        field(RECORD_backtrace, number(0x401010) + number(0x7f0000001234)) + field(4711, "a later version's") +
        field(RECORD_module, number(0x400000) + number(0x400000) + number(0x402000) + "\x02\xab\xcd/bin/program") +
        field(RECORD_place, place(0xdead0000beefULL, 2, "fault")) + field(RECORD_suspect_address, number(1)) +
        field(RECORD_suspect_copy, number(5)) + field(RECORD_suspect_copy, number(6)) +
        field(RECORD_thread_name, "worker\x1b[31m") + field(RECORD_arguments, std::string("a\0b c\0", 6)) +
        field(RECORD_environment, std::string("LD_PRELOAD=x.so\0SECRET=\xff\0", 25)) +
        field(RECORD_operations, "  last ops of thread 0:\n    0: b0 = malloc(1)\n") +
        field(RECORD_library_build_id, "\x01\xfe") + field(RECORD_cut, number(1ULL << RECORD_module)));
}

TEST(CrashRecord, TellsWhatWasWritten)
{
    CrashRecord record;
    ASSERT_EQ(record_read(sample(), record), "");
    EXPECT_EQ(record.number(RECORD_signal), 11U);
    EXPECT_EQ(record.number(RECORD_fault_address), 0xdead0000beefULL);
    EXPECT_FALSE(record.number(RECORD_seed).has_value());
    ASSERT_EQ(record.registers.size(), 2U);
    EXPECT_EQ(record.registers[1].name, "rsp");
    EXPECT_EQ(record.registers[1].value, 78U);
    EXPECT_THAT(record.backtrace, ElementsAre(0x401010, 0x7f0000001234));
    ASSERT_EQ(record.modules.size(), 1U);
    EXPECT_EQ(record.modules[0].build_id, "abcd");
    EXPECT_EQ(record.modules[0].path, "/bin/program");
    EXPECT_EQ(record.module_of(0x401010), &record.modules[0]);
    EXPECT_EQ(record.module_of(0x402000), nullptr);
    ASSERT_EQ(record.places.size(), 1U);
    EXPECT_EQ(record.places[0].address, 0xdead0000beefULL);
    EXPECT_THAT(record.places[0].words, ElementsAre(100, 101));
    EXPECT_EQ(record.places[0].of, "fault");
    EXPECT_THAT(record.suspect_copies, ElementsAre(5, 6));
    EXPECT_THAT(record.list(RECORD_arguments), ElementsAre("a", "b c"));
    EXPECT_EQ(record.text(RECORD_library_build_id), "01fe");
    EXPECT_TRUE(record.is_cut(RECORD_module));
    EXPECT_FALSE(record.is_cut(RECORD_place));
}

std::string guard_field(std::uint64_t finding, std::uint64_t allocated_count, std::uint64_t freed_count)
{
    std::string numbers;
    for (const std::uint64_t value :
         {0x7f0000001068UL, finding, 0x7f0000001000UL, 100UL, std::uint64_t{RECORD_STATE_freed}, 41UL, 42UL,
          allocated_count, freed_count, 0x401010UL, 0x401020UL, 0x401030UL})
        numbers += number(value);
    return field(RECORD_guard, numbers);
}

TEST(CrashRecord, WhatASampledBlockFound)
{
    CrashRecord record;
    ASSERT_EQ(record_read(whole(guard_field(RECORD_FINDING_use_after, 1, 2)), record), "");
    ASSERT_EQ(record.guards.size(), 1U);
    EXPECT_EQ(record.guards[0].block_bytes, 100U);
    EXPECT_THAT(record.guards[0].allocated_at, ElementsAre(0x401010));
    EXPECT_THAT(record.guards[0].freed_at, ElementsAre(0x401020, 0x401030));
    const CrashFrames frames = crash_frames(record, false);
    const std::string text = crash_text(record, frames);
    for (const char *part : {"use after free: 4 bytes past the end of a freed block of 100 bytes at 0x7f0000001000\n",
                             "allocated by thread 41 at\n  #0  0x401010", "freed by thread 42 at\n  #0  0x401020"})
        EXPECT_THAT(text, HasSubstr(part));
    const std::string json = crash_json(record, frames);
    for (const char *part :
         {"\"finding\": \"use_after\"", "\"offset\": 104", "\"state\": \"freed\"", "\"pc\": \"0x401030\""})
        EXPECT_THAT(json, HasSubstr(part));
    EXPECT_THAT(crash_text(record, {}), HasSubstr("freed by thread 42")) << "without frames too";
}

extern "C" [[gnu::noinline, gnu::used]] void a_function_of_this_program() {}

// A file that is not here any more costs the names of its own frames alone.
TEST(CrashRecord, NamesAreThoseOfTheFilesThatAreHere)
{
    Dl_info here{};
    const auto address = reinterpret_cast<std::uintptr_t>(&a_function_of_this_program);
    ASSERT_NE(dladdr(reinterpret_cast<void *>(address), &here), 0);
    const auto base = reinterpret_cast<std::uintptr_t>(here.dli_fbase);
    CrashRecord record;
    record.modules = {{0x1000, 0x1000, 0x2000, "", "/no/such/library.so"},
                      {base, address, address + 1, "", std::filesystem::read_symlink("/proc/self/exe")}};
    record.backtrace = {address, 0x1234};
    const CrashFrames frames = crash_frames(record, true);
    if (frames.note.find("install") != std::string::npos) GTEST_SKIP() << frames.note;
    EXPECT_EQ(frames.note, "no names of functions in '/no/such/library.so': the file is not here");
    ASSERT_EQ(frames.stack.size(), 2U);
    ASSERT_EQ(frames.stack[0].lines.size(), 1U);
    EXPECT_EQ(frames.stack[0].lines[0].function, "a_function_of_this_program");
    EXPECT_EQ(frames.stack[1].module, "/no/such/library.so");
}

TEST(CrashRecord, GuardOfAnotherLengthIsRefused)
{
    for (const auto &[allocated, freed] : {std::pair(0ULL, 0ULL), std::pair(3ULL, 1ULL), std::pair(1ULL, 1ULL),
                                           std::pair(~0ULL, 4ULL), std::pair(4ULL, ~0ULL)}) {
        CrashRecord record;
        EXPECT_THAT(record_read(whole(guard_field(1, allocated, freed)), record), HasSubstr("no sound field 'guard'"));
    }
    CrashRecord record;
    EXPECT_EQ(record_read(whole(guard_field(99, 3, 0)), record), "") << "a finding of a later version";
    EXPECT_THAT(crash_text(record, {}), HasSubstr("does not know"));
}

std::string short_text(const std::string &text)
{
    return bytes_of(text.size(), 1) + text;
}

std::string failfast_field(std::uint64_t allocated_count, std::uint64_t freed_count, const std::string &tail)
{
    std::string numbers;
    for (const std::uint64_t value :
         {0x7f0000001000UL, std::uint64_t{RECORD_KIND_slab}, std::uint64_t{RECORD_STATE_live}, 9UL, 0x7f0000001000UL,
          100UL, 0x7f0000001064UL, 3UL, 0xcacacacb00000000UL, 0UL, 42UL, allocated_count, freed_count, 0x401010UL,
          0x401020UL, 0x401030UL})
        numbers += number(value);
    return field(RECORD_failfast, numbers + tail);
}

const std::string kKindTexts = short_text("write_after") + short_text("overwritten") + short_text("free");

TEST(CrashRecord, WhatACheckFound)
{
    CrashRecord record;
    ASSERT_EQ(record_read(whole(failfast_field(1, 2, kKindTexts) + field(RECORD_failfast_report, "hakmem: failfast\n")),
                          record),
              "");
    ASSERT_TRUE(record.failfast.has_value());
    EXPECT_EQ(record.failfast->block_bytes, 100U);
    EXPECT_EQ(record.failfast->call, "free");
    EXPECT_THAT(record.failfast->freed_at, ElementsAre(0x401020, 0x401030));
    const CrashFrames frames = crash_frames(record, false);
    EXPECT_TRUE(frames.failfast.allocated[0].is_return);
    const std::string text = crash_text(record, frames);
    for (const char *part :
         {"write_after: overwritten\n", "the block: 100 bytes at 0x7f0000001000\n", "found by: free\n",
          "overwritten: 0x7f0000001064 and 2 bytes more; its word holds cacacacb00000000\n",
          "allocated at\n  #0  0x401010", "freed by thread 42 at\n  #0  0x401020"})
        EXPECT_THAT(text, HasSubstr(part));
    const std::string json = crash_json(record, frames);
    for (const char *part :
         {"\"kind\": \"write_after\"", "\"bad_address\": \"0x7f0000001064\"", "\"bad_bytes\": 3",
          "\"found_by\": \"free\"", "\"thread\": null", "\"pc\": \"0x401030\"", "\"report\": \"hakmem: failfast\\n\""})
        EXPECT_THAT(json, HasSubstr(part));
}

TEST(CrashRecord, FailfastOfAnotherLengthIsRefused)
{
    for (const auto &[allocated, freed, tail] :
         {std::tuple(1ULL, 2ULL, kKindTexts + "x"), std::tuple(1ULL, 2ULL, kKindTexts.substr(0, kKindTexts.size() - 1)),
          std::tuple(~0ULL, 4ULL, kKindTexts), std::tuple(4ULL, ~0ULL, kKindTexts),
          std::tuple(2ULL, 2ULL, std::string())}) {
        CrashRecord record;
        EXPECT_THAT(record_read(whole(failfast_field(allocated, freed, tail)), record),
                    HasSubstr("no sound field 'failfast'"));
    }
    CrashRecord record;
    const std::string one = failfast_field(1, 2, kKindTexts);
    EXPECT_THAT(record_read(whole(one + one), record), HasSubstr("'failfast'")) << "twice";
}

TEST(CrashRecord, HowTheProcessWasStarted)
{
    CrashRecord record;
    ASSERT_EQ(
        record_read(whole(field(RECORD_process, number(7)) + field(RECORD_installed_process, number(5)) +
                          field(RECORD_standard_input, "pipe:[12]") + field(RECORD_signal_sender, number(9)) +
                          field(RECORD_program_bytes, number(1000)) + field(RECORD_program_mtime_ns, number(2000)) +
                          field(RECORD_library_bytes, number(3000))),
                    record),
        "");
    const std::string text = crash_text(record, {});
    for (const char *part : {"7, forked since from process 5\n", "its input    pipe:[12]\n", "sent by process 9\n"})
        EXPECT_THAT(text, HasSubstr(part));
    const std::string json = crash_json(record, {});
    for (const char *part : {"\"forked\": true", "\"installed_pid\": 5", "\"standard_input\": \"pipe:[12]\"",
                             "\"sender\": 9", "\"size_bytes\": 1000", "\"mtime_ns\": 2000", "\"size_bytes\": 3000"})
        EXPECT_THAT(json, HasSubstr(part));
    CrashRecord empty;
    ASSERT_EQ(record_read(whole(""), empty), "");
    EXPECT_THAT(crash_json(empty, {}), HasSubstr("\"forked\": null"));
    EXPECT_THAT(crash_json(empty, {}), HasSubstr("\"failfast\": null"));
}

TEST(CrashRecord, EmptyArgumentsStay)
{
    CrashRecord record;
    ASSERT_EQ(record_read(whole(field(RECORD_arguments, std::string("a\0\0b\0\0", 6))), record), "");
    EXPECT_THAT(record.list(RECORD_arguments), ElementsAre("a", "", "b", ""));
    EXPECT_THAT(crash_text(record, {}), HasSubstr("was run as   a '' b ''\n"));
}

TEST(CrashRecord, TextAndJsonOfAnyContent)
{
    CrashRecord record;
    ASSERT_EQ(record_read(sample(), record), "");
    CrashFrames frames = crash_frames(record, false);
    frames.note = "no names here";
    const std::string text = crash_text(record, frames);
    for (const char *part : {"SIGSEGV at 0xdead0000beef", "SEGV_MAPERR", "/bin/program+0x1010", "no names here",
                             "b0 = malloc(1)", "a 'b c'", "LD_PRELOAD=x.so", "cut: module", "worker?[31m"})
        EXPECT_THAT(text, HasSubstr(part));
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << "a terminal would obey it";
    EXPECT_EQ(text.find("SECRET"), std::string::npos) << "the environment is for the JSON alone";
    const std::string json = crash_json(record, frames);
    for (const char *part : {"\"fault_address\": \"0xdead0000beef\"", "\"seed\": null", "\"SECRET=\xef\xbf\xbd\"",
                             "\"module\": \"/bin/program\"", "\"of\": \"fault\""})
        EXPECT_THAT(json, HasSubstr(part));
    CrashRecord empty;
    ASSERT_EQ(record_read(whole(""), empty), "");
    EXPECT_THAT(crash_text(empty, {}), HasSubstr("no backtrace"));
    EXPECT_THAT(crash_json(empty, {}), HasSubstr("\"fault_address\": null"));
}

TEST(CrashRecord, EveryTruncationIsRefused)
{
    const std::string bytes = sample();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        CrashRecord record;
        const std::string fault = record_read(bytes.substr(0, length), record);
        ASSERT_NE(fault, "") << length;
        EXPECT_THAT(fault, HasSubstr("; copy it again")) << length;
        EXPECT_EQ(fault.find('\n'), std::string::npos);
        EXPECT_TRUE(record.numbers.empty());
    }
}

TEST(CrashRecord, EveryFlippedBitIsRefused)
{
    const std::string bytes = sample();
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        std::string changed = bytes;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
        CrashRecord record;
        ASSERT_NE(record_read(changed, record), "") << "bit " << bit;
    }
}

TEST(CrashRecord, SaysWhatIsWrong)
{
    CrashRecord record;
    EXPECT_THAT(record_read("", record), HasSubstr("is empty"));
    EXPECT_THAT(record_read("\x7f"
                            "ELF and so on, a core",
                            record),
                HasSubstr("does not begin with HAKCRASH"));
    EXPECT_THAT(record_read(whole("", 2), record), HasSubstr("version 2"));
    EXPECT_THAT(record_read(sample() + "x", record), HasSubstr("has not its end where it says"));
    EXPECT_THAT(record_read(whole(field(RECORD_signal, "short")), record), HasSubstr("'signal'"));
    EXPECT_THAT(record_read(whole(field(RECORD_seed, number(1)) + field(RECORD_seed, number(1))), record),
                HasSubstr("'seed'"));
    EXPECT_THAT(record_read(whole(field(RECORD_place, place(1, 5, ""))), record), HasSubstr("'place'"));
    EXPECT_THAT(record_read(whole(field(RECORD_place, place(1, 4, "fault") + "x")), record), HasSubstr("'place'"));
    EXPECT_THAT(record_read(whole(field(RECORD_module, number(1))), record), HasSubstr("'module'"));
    EXPECT_THAT(record_read(whole(field(RECORD_module, number(1) + number(2) + number(3) + "\x09short")), record),
                HasSubstr("'module'"));
    EXPECT_THAT(record_read(whole(field(RECORD_backtrace, "1234567")), record), HasSubstr("'backtrace'"));
}

// After every other change the checksum is corrected: then too, everything that the reader accepts must be sound.
TEST(CrashRecord, RandomChangesAreRefusedOrReadTheSame)
{
    const std::string bytes = sample();
    CrashRecord original;
    ASSERT_EQ(record_read(bytes, original), "");
    const std::string json = crash_json(original, {});
    Rng rng(20260214, 0);
    std::uint64_t same = 0, refused = 0, forged_read = 0;
    for (int round = 0; round < 100'000; ++round) {
        std::string changed = bytes;
        const std::uint64_t changes = 1 + rng.below(8);
        for (std::uint64_t i = 0; i < changes && !changed.empty(); ++i) {
            const std::size_t at = rng.below(changed.size());
            switch (rng.below(5)) {
            case 0: changed[at] = static_cast<char>(rng.below(256)); break;
            case 1: changed.erase(at, 1 + rng.below(16)); break;
            case 2: changed.insert(at, 1 + rng.below(16), static_cast<char>(rng.below(256))); break;
            case 3: changed.insert(at, bytes.substr(rng.below(bytes.size()), rng.below(64))); break;
            default: changed[at] = static_cast<char>(rng.below(2) == 0 ? 0 : 255); break;
            }
        }
        const bool is_forged = round % 2 == 1 && changed.size() > 4;
        if (is_forged) {
            changed.resize(changed.size() - 4);
            changed += bytes_of(record_crc32(changed), 4);
        }
        CrashRecord record;
        const std::string fault = record_read(changed, record);
        if (!fault.empty()) {
            ++refused;
        } else if (is_forged) {
            ++forged_read;
            ASSERT_FALSE(crash_json(record, {}).empty());
            ASSERT_FALSE(crash_text(record, {}).empty());
        } else {
            ++same;
            ASSERT_EQ(changed, bytes) << "round " << round;
            ASSERT_EQ(crash_json(record, {}), json);
        }
    }
    EXPECT_GT(refused, 50'000U);
    EXPECT_GT(forged_read, 1'000U) << "no change got past the checksum: nothing behind it was tried";
    RecordProperty("same", static_cast<int>(same));
}

TEST(CrashRecord, FilesThatAreNoRecord)
{
    const std::string path = testing::TempDir() + "hakmem-record-" + std::to_string(getpid());
    CrashRecord record;
    EXPECT_THAT(record_load(path, record), HasSubstr("cannot be opened"));
    EXPECT_THAT(record_load("/tmp", record), HasSubstr("is a directory"));
    std::ofstream(path) << sample();
    EXPECT_EQ(record_load(path, record), "");
    ASSERT_EQ(truncate(path.c_str(), (1 << 20) + 1), 0);
    EXPECT_THAT(record_load(path, record), HasSubstr("larger than 1 MiB"));
    ASSERT_EQ(truncate(path.c_str(), 0), 0);
    EXPECT_THAT(record_load(path, record), HasSubstr("is empty"));
    unlink(path.c_str());
}

}  // namespace
}  // namespace stress
