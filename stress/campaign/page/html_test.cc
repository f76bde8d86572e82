#include "campaign/page/html.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

const std::string kReplaced = "\xEF\xBF\xBD";

TEST(Html, EscapesWhatHasAMeaning)
{
    EXPECT_EQ(html_escape("<script>alert('a' & \"b\")</script>"),
              "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;");
    EXPECT_EQ(html_escape("&lt;"), "&amp;lt;");
    EXPECT_EQ(html_escape(""), "");
}

TEST(Html, KeepsWholeCharactersAlone)
{
    EXPECT_EQ(html_escape("µ € 𝄞\n\t"), "µ € 𝄞\n\t");
    EXPECT_EQ(html_escape(std::string("a\0b\x1b\x7f", 5)), "a" + kReplaced + "b" + kReplaced + kReplaced);
    for (const char *bad : {"\x80", "\xC0\xAF", "\xC3", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"})
        EXPECT_EQ(html_escape(bad).find_first_not_of(kReplaced), std::string::npos) << bad;
    EXPECT_EQ(html_escape("\xC3<"), kReplaced + "&lt;");  // a cut character must not swallow what follows
}

// Whatever a byte or a pair of bytes is, the result cannot open or end a tag or an attribute.
TEST(Html, NoPairOfBytesSlipsThrough)
{
    for (unsigned pair = 0; pair < 65536; ++pair) {
        const std::string text{static_cast<char>(pair >> 8), static_cast<char>(pair & 255)};
        ASSERT_EQ(html_escape(text).find_first_of("<>\"'"), std::string::npos) << pair;
    }
}

TEST(Html, CommandsBreakAtBlanksOnly)
{
    EXPECT_EQ(html_command("hakmem-stress larson --quiet --seed 42"),
              "<span>hakmem-stress</span> <span>larson</span> <span>--quiet</span> <span>--seed 42</span>");
    EXPECT_EQ(html_command("A=1 run --report 'my <report>'"),
              "<span>A=1</span> <span>run</span> <span>--report &#39;my &lt;report&gt;&#39;</span>");
    const std::string path(40, 'x'); // too long to stay with its option
    EXPECT_EQ(html_command("--allocator " + path), "<span>--allocator</span> <span>" + path + "</span>");
}

TEST(Html, Figures)
{
    EXPECT_EQ(html_count(1234567), "1\u202F234\u202F567");
    EXPECT_EQ(html_count(999), "999");
    EXPECT_NE(html_count(std::nullopt).find("not measured"), std::string::npos);
    EXPECT_EQ(nanoseconds_text(0), "0 ns");
    EXPECT_EQ(nanoseconds_text(999), "999 ns");
    EXPECT_EQ(nanoseconds_text(999.9), "1 µs");
    EXPECT_EQ(nanoseconds_text(1250), "1.2 µs");
    EXPECT_EQ(nanoseconds_text(34e6), "34 ms");
    EXPECT_EQ(nanoseconds_text(2.5e9), "2.5 s");
}

}  // namespace
}  // namespace stress
