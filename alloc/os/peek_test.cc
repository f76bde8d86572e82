// peek_test.cc: memory that is there is read, memory that is not is refused, and nothing faults.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

extern "C" {
#include "os/peek.h"
}

namespace {

TEST(Peek, ReadsWhatIsThere)
{
    const char text[] = "what is there";
    char out[sizeof text] = {};
    EXPECT_TRUE(os_peek(text, out, sizeof out));
    EXPECT_STREQ(out, text);
    uint64_t word = 0x0123456789abcdef;
    bool readable = false;
    EXPECT_EQ(os_peek_word(&word, &readable), word);
    EXPECT_TRUE(readable);
}

TEST(Peek, RefusesWhatIsNot)
{
    void *mapped = mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    char *pages = static_cast<char *>(mapped);
    ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    char out[16];
    errno = 77;
    EXPECT_TRUE(os_peek(pages + 4096 - 16, out, 16));
    EXPECT_FALSE(os_peek(pages + 4096 - 8, out, 16)) << "half of it is not readable";
    EXPECT_FALSE(os_peek(pages + 4096, out, 16));
    EXPECT_FALSE(os_peek(nullptr, out, 16));
    EXPECT_FALSE(os_peek(reinterpret_cast<void *>(0xdeadbeefdeadbeef), out, 16)) << "no address of this processor";
    EXPECT_FALSE(os_peek(reinterpret_cast<void *>(UINTPTR_MAX - 3), out, 16));
    EXPECT_EQ(errno, 77);
    bool readable = true;
    EXPECT_EQ(os_peek_word(pages + 4096, &readable), 0u);
    EXPECT_FALSE(readable);
    munmap(pages, 2 * 4096);
}

}  // namespace
