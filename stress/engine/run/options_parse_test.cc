#include "engine/run/options_parse.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <ostream>
#include <vector>

#include "engine/base/build.h"
#include "engine/run/scenario.h"
#include "scenario/larson_options.h"
#include "scenario/remote_free_options.h"

namespace stress {
namespace {

ParseOutcome parse(std::vector<const char *> words)
{
    words.insert(words.begin(), "hakmem-stress");
    return options_parse(static_cast<int>(words.size()), words.data());
}

Options accepted(std::vector<const char *> words)
{
    const ParseOutcome outcome = parse(std::move(words));
    EXPECT_TRUE(outcome.run) << outcome.text;
    return outcome.options;
}

TEST(Options, Defaults)
{
    const Options o = accepted({"random-mixed"});
    EXPECT_EQ(o.threads, 2u);
    EXPECT_EQ(o.seconds, 2);
    EXPECT_EQ(o.ops, 0u);
    EXPECT_TRUE(o.check);
    EXPECT_FALSE(o.seed.has_value());
    EXPECT_EQ(o.min_size_bytes, 16u);
    EXPECT_EQ(o.max_size_bytes, 1024u);
    EXPECT_EQ(o.watchdog_seconds, 60);
}

TEST(Options, OpsWithoutSecondsMeansNoTimeLimit)
{
    const Options o = accepted({"larson", "--ops", "1000", "--threads", "4", "--no-check"});
    EXPECT_EQ(o.ops, 1000u);
    EXPECT_EQ(o.seconds, 0);
    EXPECT_EQ(o.threads, 4u);
    EXPECT_FALSE(o.check);
}

TEST(Options, LarsonTakesItsClassicArguments)
{
    const Options o = accepted({"larson", "5", "8", "1000", "5000", "100", "4141", "4"});
    EXPECT_EQ(o.seconds, 5);
    EXPECT_EQ(o.min_size_bytes, 8u);
    EXPECT_EQ(o.max_size_bytes, 1000u);
    EXPECT_EQ(own_options<LarsonOptions>(o).chunks, 5000u);
    EXPECT_EQ(own_options<LarsonOptions>(o).rounds, 100u);
    EXPECT_EQ(o.seed, 4141u);
    EXPECT_EQ(o.threads, 4u);
}

TEST(Options, LarsonTakesSomeOfItsClassicArguments)
{
    const Options o = accepted({"larson", "0.5", "16", "--seed", "0"});
    EXPECT_EQ(o.seconds, 0.5);
    EXPECT_EQ(o.min_size_bytes, 16u);
    EXPECT_EQ(o.max_size_bytes, 1000u);
    EXPECT_EQ(o.seed, 0u);
}

TEST(Options, RandomMixedTakesItsClassicArguments)
{
    const Options o = accepted({"random-mixed", "100000", "256", "42", "--threads", "3"});
    EXPECT_EQ(o.ops, 300000u);
    EXPECT_EQ(o.working_set, 256u);
    EXPECT_EQ(o.seed, 42u);
    EXPECT_EQ(o.seconds, 0);
}

TEST(Options, RemoteFreeDividesTheThreads)
{
    const auto division = [](const char *threads) {
        const Options o = accepted({"remote-free", "--threads", threads});
        const auto &own = own_options<RemoteFreeOptions>(o);
        EXPECT_EQ(o.threads, own.producers + own.consumers);
        return std::pair(own.producers, own.consumers);
    };
    EXPECT_EQ(division("1"), std::pair(1u, 1u));
    EXPECT_EQ(division("2"), std::pair(1u, 1u));
    EXPECT_EQ(division("5"), std::pair(2u, 3u));
    EXPECT_EQ(division("8"), std::pair(4u, 4u));
    const Options o = accepted({"remote-free", "--producers", "3", "--consumers", "2", "--mode", "owner-exit"});
    EXPECT_EQ(o.threads, 5u);
    EXPECT_EQ(own_options<RemoteFreeOptions>(o).mode, RemoteMode::OwnerExit);
}

TEST(Options, StrictFollowsTheAllocatorUnlessGiven)
{
    EXPECT_EQ(accepted({"larson"}).strict, kDirect || !kSanitized);
    EXPECT_TRUE(accepted({"larson", "--strict"}).strict);
    EXPECT_FALSE(accepted({"larson", "--no-strict"}).strict);
    if constexpr (!kDirect) {
        EXPECT_FALSE(accepted({"larson", "--allocator", "system"}).strict);
    }
}

TEST(Options, ReproduceAddsTheSeedOnlyWhenItWasDrawn)
{
    const char *drawn[] = {"./hakmem-stress", "larson", "--json", "a b'c"};
    EXPECT_EQ(options_reproduce(4, drawn, Options(), 7), "./hakmem-stress larson --json 'a b'\\''c' --seed 7");
    Options with_seed;
    with_seed.seed = 42;
    const char *given[] = {"./hakmem-stress", "larson", "--seed", "42"};
    EXPECT_EQ(options_reproduce(4, given, with_seed, 42), "./hakmem-stress larson --seed 42");
}

TEST(Options, ListAndHelpSucceed)
{
    const ParseOutcome list = parse({"list"}), help = parse({"--help"});
    EXPECT_EQ(list.exit_code, 0);
    EXPECT_EQ(std::count(list.text.begin(), list.text.end(), '\n'), std::ssize(scenarios()));
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.text.find("remote-free"), std::string::npos);
    for (const ParseOutcome &sub : {parse({"larson", "--help"}), parse({"--help", "larson"})}) {
        EXPECT_EQ(sub.exit_code, 0);
        EXPECT_NE(sub.text.find("--rounds"), std::string::npos);
    }
}

struct Bad {
    std::vector<const char *> words;
    const char *says;  // part of the message that says what is wrong
};

void PrintTo(const Bad &bad, std::ostream *out)
{
    for (const char *word : bad.words) *out << word << ' ';
}

class BadOptions : public testing::TestWithParam<Bad> {};

TEST_P(BadOptions, GiveOneLineAndStatusTwo)
{
    const ParseOutcome outcome = parse(GetParam().words);
    EXPECT_FALSE(outcome.run);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
    EXPECT_EQ(outcome.text.back(), '\n');
    EXPECT_NE(outcome.text.find(GetParam().says), std::string::npos) << outcome.text;
}

// Each name with one byte left out, changed or put in at each place, and each with two bytes in the wrong order.
TEST(Options, ASlipInANameIsToldTheNameThatIsNear)
{
    std::vector<std::string> names{"conform"};
    for (const Scenario &scenario : scenarios()) names.push_back(scenario.name);
    for (const std::string &name : names) {
        for (std::size_t at = 0; at < name.size(); at++) {
            std::string left_out = name, changed = name, put_in = name, turned = name;
            left_out.erase(at, 1);
            changed[at] = '#';
            put_in.insert(at, 1, '#');
            if (at > 0) std::swap(turned[at - 1], turned[at]);
            for (const std::string &word : {left_out, changed, put_in, turned}) {
                if (word == name || scenario_find(word) != nullptr || (word == turned && name.size() < 4)) continue;
                const char *argv[] = {"hakmem-stress", word.c_str(), nullptr};
                const ParseOutcome outcome = options_parse(2, argv, {"conform"});
                EXPECT_EQ(outcome.exit_code, 2);
                const std::string says = "unknown scenario '" + word + "'; the nearest name is " + name + ";";
                EXPECT_NE(outcome.text.find(says), std::string::npos) << outcome.text;
            }
        }
    }
    const char *option[] = {"hakmem-stress", "larson", "--second", "3", nullptr};
    EXPECT_NE(options_parse(4, option).text.find("--second; the nearest name is --seconds; see"), std::string::npos)
        << options_parse(4, option).text;
    const char *list[] = {"hakmem-stress", "lst", nullptr};
    EXPECT_NE(options_parse(2, list).text.find("the nearest name is list;"), std::string::npos);
    const char *far[] = {"hakmem-stress", "bogus", nullptr};
    EXPECT_EQ(options_parse(2, far).text.find("nearest"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadOptions,
    testing::Values(Bad{{}, "no scenario"}, Bad{{"bogus"}, "unknown scenario 'bogus'"},
                    Bad{{"--threads", "2"}, "scenario comes first"}, Bad{{"larson", "--threads", "0"}, "from 1 to"},
                    Bad{{"larson", "--threads", "-3"}, "'-3'"}, Bad{{"larson", "--threads", "many"}, "'many'"},
                    Bad{{"larson", "--threads"}, "--threads"}, Bad{{"larson", "--seconds", "-1"}, "'-1'"},
                    Bad{{"larson", "--seconds", "0"}, "above 0"}, Bad{{"larson", "--seconds", "nan"}, "'nan'"},
                    Bad{{"larson", "--ops", "0"}, "'0'"}, Bad{{"larson", "--ops", "1e6"}, "'1e6'"},
                    Bad{{"larson", "--seed", "-1"}, "'-1'"}, Bad{{"larson", "--seed", "99999999999999999999"}, "seed"},
                    Bad{{"larson", "--watchdog", "-1"}, "0 or more"}, Bad{{"larson", "--cancel", "0"}, "cancel"},
                    Bad{{"larson", "--chunks", "0"}, "chunks"}, Bad{{"larson", "--bogus"}, "--bogus"},
                    Bad{{"larson", "--repeat", "4"}, "5 rounds or more"},
                    Bad{{"larson", "--repeat", "8", "--no-strict"}, "9 rounds or more"},
                    Bad{{"larson", "--min-size", "1000", "--max-size", "8"}, "min-size 1000 is above"},
                    Bad{{"larson", "-5"}, "-5"}, Bad{{"larson", "1", "-8"}, "'-8'"},
                    Bad{{"larson", "1", "8", "100", "9", "9", "9", "9", "9"}, "At Most 7"},
                    Bad{{"larson", "--chunks", "9007199254740992"}, "fewer"}, Bad{{"random-mixed", "0"}, "iterations"},
                    Bad{{"random-mixed", "10", "x"}, "working-set"},
                    Bad{{"random-mixed", "--min-size", "64", "--max-size", "32"}, "swap"},
                    Bad{{"remote-free", "--mode", "sideways"}, "'sideways'"},
                    Bad{{"remote-free", "--queue-slots", "100"}, "power of two"},
                    Bad{{"remote-free", "--producers", "0"}, "producers"},
                    Bad{{"larson", "--json", "/no/such/place/x.json"}, "cannot write"},
                    Bad{{"larson", "--json", "/"}, "cannot write"}));

}  // namespace
}  // namespace stress
