// build_id_test.cc: functions are named from files of the same build only.
#include "engine/base/build_id.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "record/record_report.h"
#include "record/symbols.h"

namespace stress {
namespace {

extern "C" [[gnu::noinline, gnu::used]] void a_function_of_this_file() {}

// Another build at the same path has other functions at the same places.
TEST(CrashRecord, NamesAreThoseOfTheSameBuild)
{
    const std::string program = std::filesystem::read_symlink("/proc/self/exe"), id = file_build_id(program);
    Dl_info here{};
    const auto address = reinterpret_cast<std::uintptr_t>(&a_function_of_this_file);
    ASSERT_NE(dladdr(reinterpret_cast<void *>(address), &here), 0);
    const auto base = reinterpret_cast<std::uintptr_t>(here.dli_fbase);
    EXPECT_EQ(file_build_id("/no/such/file"), "");
    EXPECT_EQ(file_build_id("/proc/self/maps"), "") << "no ELF file";
    for (const std::string &other : {id, std::string("00"), id.substr(0, id.size() / 2), id + "0"}) {
        CrashRecord record;
        record.modules = {{base, address, address + 1, other, program}};
        record.backtrace = {address};
        const CrashFrames frames = crash_frames(record, true);
        if (frames.note.find("install") != std::string::npos) GTEST_SKIP() << frames.note;
        const bool is_same = other.empty() || other == id; // a program without a build id: any is believed
        EXPECT_EQ(frames.stack[0].lines.size(), is_same ? 1U : 0U) << other;
        EXPECT_EQ(frames.note,
                  is_same ? "" : "no names of functions in '" + program + "': the file here is another build");
    }
}

} // namespace
} // namespace stress
