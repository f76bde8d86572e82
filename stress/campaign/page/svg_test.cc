// Figures of extreme data: every coordinate is a finite number inside the viewBox.
#include "campaign/page/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <sstream>

#include "campaign/page/figures.h"

namespace stress {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> kExtremes{0,     1,      -1,   0.5,   1e-300, 1e18, 1.8446744073709552e19,
                                    1e300, -1e300, kInf, -kInf, kNan};

// What is wrong with the picture, or nothing.
std::string fault_of(const std::string &svg)
{
    std::smatch box;
    if (!std::regex_search(svg, box, std::regex("viewBox=\"0 0 ([0-9]+) ([0-9]+)\""))) return "no viewBox";
    const double width = std::stod(box[1]), height = std::stod(box[2]);
    const std::string tags = std::regex_replace(svg, std::regex(">[^<]*<"), "><");
    const std::regex attribute(" (x|y|x1|x2|y1|y2|cx|cy|r|rx|width|height|points)=\"([^\"]*)\"");
    const std::regex number("[0-9]+(\\.[0-9])?");
    std::size_t seen = 0;
    for (std::sregex_iterator found(tags.begin(), tags.end(), attribute), none; found != none; ++found) {
        const std::string name = (*found)[1], value = (*found)[2];
        std::string list = std::regex_replace(value, std::regex(","), " ");
        std::istringstream words(list);
        std::string word;
        for (std::size_t i = 0; words >> word; ++i, ++seen) {
            if (!std::regex_match(word, number)) return name + "=" + word;
            const bool up = name[0] == 'y' || name == "cy" || name == "height" || (name == "points" && i % 2 == 1);
            if (std::stod(word) > (up ? height : width)) return name + "=" + word + " is outside";
        }
    }
    return seen == 0 ? "nothing drawn" : "";
}

TEST(Svg, EveryPrimitiveClampsWhatItIsGiven)
{
    for (double a : kExtremes)
        for (double b : kExtremes) {
            Svg svg(100, 50, "id", "title", "description");
            svg.line(a, b, b, a, "c");
            svg.rect(a, b, b, a, 2, "c");
            svg.circle(a, b, 3, "c");
            svg.polyline({{a, b}, {b, a}}, "c");
            svg.polygon({{a, b}, {b, a}}, "c");
            svg.text(a, b, "end", "c", "text");
            EXPECT_EQ(fault_of(svg.done()), "") << a << " " << b;
        }
}

TEST(Svg, TheCheckItselfSeesWhatIsOutside)
{
    EXPECT_NE(fault_of("<svg viewBox=\"0 0 10 10\"><line x1=\"11\"/></svg>"), "");
    EXPECT_NE(fault_of("<svg viewBox=\"0 0 10 10\"><line x1=\"nan\"/></svg>"), "");
    EXPECT_NE(fault_of("<svg viewBox=\"0 0 20 10\"><polyline points=\"11,5 12,11\"/></svg>"), "");
    EXPECT_EQ(fault_of("<svg viewBox=\"0 0 20 10\"><polyline points=\"11,5 12,10\"/></svg>"), "");
}

TEST(Svg, AxisPlacesInBetween)
{
    const Axis axis{0, 10, 100, 0};
    EXPECT_EQ(axis.place(5), 50);
    EXPECT_EQ(axis.place(kNan), 100);
    EXPECT_EQ(axis.place(kInf), 0);
    EXPECT_EQ((Axis{3, 3, 1, 2}).place(3), 1);
    EXPECT_DOUBLE_EQ(log_place({1, 1000, 0, 300}, 10), 100);
    EXPECT_EQ(log_place({1, 1000, 0, 300}, 0), 0);
}

TEST(Svg, TicksAreFewRoundAndCoverTheData)
{
    for (double high : {0.0, 1e-12, 0.3, 1.0, 3.0, 7.0, 1e3, 12345678.0, 1e18, 1e300, kInf, kNan})
        for (auto ticks : {ticks_bytes, ticks_decimal}) {
            const std::vector<double> values = ticks(high, 4);
            ASSERT_GE(values.size(), 2u) << high;
            EXPECT_LE(values.size(), 6u) << high;
            EXPECT_EQ(values.front(), 0);
            if (high <= 1e30) EXPECT_GE(values.back(), high);
        }
    EXPECT_EQ(ticks_decimal(7, 4), (std::vector<double>{0, 2, 4, 6, 8}));
    EXPECT_EQ(ticks_bytes(3000, 4), (std::vector<double>{0, 1024, 2048, 3072}));
}

RunRecord extreme_run(double value)
{
    const std::uint64_t count = !(value > 0) ? 0 : value < 1.8e19 ? static_cast<std::uint64_t>(value) : UINT64_MAX;
    RunRecord run;
    run.scenario = "<larson>";
    run.allocator = "allocator & friends";
    run.ops_per_second = value;
    run.memory_bound_bytes = count;
    run.malloc_ns = {1, count, count, count, count, count};
    run.free_ns = {1, 0, 1, 2, 3, count};
    for (double live : {0.0, value, 1.0}) run.samples.push_back({static_cast<double>(run.samples.size()), live, value});
    return run;
}

TEST(Svg, FiguresOfExtremeData)
{
    for (double a : kExtremes)
        for (double b : kExtremes) {
            RunRecord one = extreme_run(a), other = extreme_run(b);
            other.schedule = "seeded";
            const Runs runs{&one, &other};
            EXPECT_EQ(fault_of(figure_memory("b", one, b)), "") << a;
            EXPECT_EQ(fault_of(figure_latency("c", runs)), "") << a << " " << b;
        }
}

TEST(Svg, FiguresOfOneSampleAndOfNone)
{
    RunRecord run = extreme_run(5);
    run.samples.resize(1);
    EXPECT_EQ(fault_of(figure_memory("a", run, 0)), "");
    EXPECT_NE(figure_memory("a", run, 0).find("<circle"), std::string::npos);
    run.samples.clear();
    run.malloc_ns.count = run.free_ns.count = 0;
    EXPECT_EQ(figure_memory("a", run, 9), "");
    EXPECT_EQ(figure_latency("a", {&run}), "");
}

}  // namespace
}  // namespace stress
