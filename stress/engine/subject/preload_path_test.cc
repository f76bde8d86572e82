#include "engine/subject/preload_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace stress {
namespace {

class PreloadPath : public ::testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_NE(mkdtemp(folder_.data()), nullptr);
        setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
        links_ = folder_ + "/hakmem-preload-" + std::to_string(geteuid());
    }
    void TearDown() override
    {
        unsetenv("XDG_RUNTIME_DIR");
        std::filesystem::remove_all(folder_);
    }

    std::string folder_ = "/tmp/preload-path-XXXXXX", links_;
};

TEST_F(PreloadPath, IsThePathWhereLdPreloadCanNameIt)
{
    EXPECT_EQ(preload_path("/no/such+lib'1.so"), "/no/such+lib'1.so");
    EXPECT_FALSE(std::filesystem::exists(links_));
}

TEST_F(PreloadPath, IsALinkThatStaysTheSame)
{
    const std::string one = "/a b/lib.so", other = "/a:b/lib 2.so", link = preload_path(one);
    EXPECT_EQ(std::filesystem::read_symlink(link), one);
    EXPECT_EQ(preload_path(one), link);
    EXPECT_EQ(link.find_first_of(": "), std::string::npos);
    EXPECT_NE(preload_path(other), link);
    EXPECT_EQ(std::filesystem::read_symlink(preload_path(other)), other);
}

TEST_F(PreloadPath, ReplacesALinkThatLeadsElsewhere)
{
    const std::string link = preload_path("/a b/lib.so");
    std::filesystem::remove(link);
    std::filesystem::create_symlink("/elsewhere.so", link);
    EXPECT_EQ(preload_path("/a b/lib.so"), link);
    EXPECT_EQ(std::filesystem::read_symlink(link), "/a b/lib.so");
}

TEST_F(PreloadPath, RefusesAFolderThatOthersMayWriteTo)
{
    ASSERT_EQ(mkdir(links_.c_str(), 0755), 0);
    EXPECT_EQ(preload_path("/a b/lib.so"), "");
    EXPECT_EQ(errno, EPERM);
    EXPECT_TRUE(std::filesystem::is_empty(links_));
}

TEST_F(PreloadPath, RefusesALinkToAFolder)
{
    std::filesystem::create_directory(folder_ + "/other");
    std::filesystem::create_symlink(folder_ + "/other", links_);
    EXPECT_EQ(preload_path("/a b/lib.so"), "");
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/other"));
}

}  // namespace
}  // namespace stress
