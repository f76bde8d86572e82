#include "campaign/page/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stress {
namespace {

using testing::HasSubstr;

TEST(Library, WhatIsNotHereSaysWhy)
{
    const Library none = library_of("/no/such/library.so");
    EXPECT_EQ(none.fault, "/no/such/library.so is not here");
    EXPECT_EQ(none.build_id, "");
    const Library libc = library_of("system");
    if (libc.fault.empty()) EXPECT_THAT(libc.path, HasSubstr("libc"));
}

} // namespace
} // namespace stress
