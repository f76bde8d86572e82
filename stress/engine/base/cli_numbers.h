// Numbers and names on the command line, for CLI11. Refuses text that is not a whole number in range, and names the range.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <locale>
#include <sstream>
#include <string>
#include <type_traits>

namespace stress {

template <typename T> bool parse_number(const std::string &text, T &value)
{
    if constexpr (std::is_floating_point_v<T>) { // not every C++ library has from_chars for these
        std::istringstream words(text);
        words.imbue(std::locale::classic());
        return words >> std::noskipws >> value && words.peek() == std::istringstream::traits_type::eof();
    } else {
        const char *end = text.data() + text.size();
        const auto [stopped, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stopped == end;
    }
}

inline bool seconds_ok(const std::string &text, bool zero_allowed)
{
    double value = 0;
    return parse_number(text, value) && (zero_allowed ? value >= 0 : value > 0) && value <= 1e7;
}

inline CLI::Validator seconds_number(bool zero_allowed)
{
    return CLI::Validator(
        [zero_allowed](std::string &text) {
            if (seconds_ok(text, zero_allowed)) return std::string();
            return "must be a number of seconds " + std::string(zero_allowed ? "of 0 or more" : "above 0") + ", not '" +
                   text + "'";
        },
        "SECONDS");
}

// The command of that name, or the program itself.
inline const CLI::App &command_of(const CLI::App &app, const std::string &name)
{
    for (const CLI::App *command : app.get_subcommands({}))
        if (command->get_name() == name) return *command;
    return app;
}

// Every program of the suite reads its command line by this. Of what CLI11 lets pass, it refuses an empty argument, which a
// script may have taken from a variable that is not set, and a value for a flag. An unknown option comes before what is missing.
inline void parse_strictly(CLI::App &app, int argc, const char *const *argv)
{
    const CLI::App &command = command_of(app, argc > 1 ? argv[1] : "");
    std::string before;
    for (int i = 1; i < argc && before != "--"; ++i) {
        const std::string word = argv[i];
        const std::string name = word.substr(0, word.find('='));
        if (word.empty() || (name.size() > 2 && name.rfind("--", 0) == 0 && word == name + "="))
            throw CLI::ValidationError((word.empty() ? before : name) + ": is empty: give a value, or leave it out");
        if (name.size() > 2 && name.rfind("--", 0) == 0) {
            const CLI::Option *option = command.get_option_no_throw(name);
            if (option == nullptr && !command.get_allow_extras()) throw CLI::ExtrasError({word});
            if (option != nullptr && word != name && option->get_items_expected_max() == 0)
                throw CLI::ValidationError(name + ": takes no value");
        }
        before = word;
    }
    app.parse(argc, argv);
}

inline CLI::Validator whole_number(std::uint64_t low, std::uint64_t high)
{
    return CLI::Validator(
        [low, high](std::string &text) {
            std::uint64_t value = 0;
            if (parse_number(text, value) && value >= low && value <= high) return std::string();
            return "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ", not '" +
                   text + "'";
        },
        "N");
}

} // namespace stress
