// Reads characters, words and numbers of a text, counts its lines, and reports what is wrong at which line.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace stress {

// What is wrong; thrown by Reader::fail and caught in program_parse.
struct Fault {
    std::string text;
};

inline bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Reader {
  public:
    explicit Reader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

    void skip()
    {
        for (; at_ != end_; ++at_) {
            if (*at_ == '#' || (*at_ == '/' && end_ - at_ > 1 && at_[1] == '/')) rest_of_line();
            if (at_ == end_) return;
            if (*at_ == '\n') ++line_;
            else if (*at_ != ' ' && *at_ != '\t' && *at_ != '\r') return;
        }
    }

    bool at_end()
    {
        skip();
        return at_ == end_;
    }

    bool take(char wanted)
    {
        skip();
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }

    void expect(char wanted, const char *where)
    {
        if (!take(wanted)) unexpected(std::string("'") + wanted + "' " + where);
    }

    std::string_view word()
    {
        skip();
        const char *start = at_;
        while (at_ != end_ && is_word(*at_)) ++at_;
        return {start, static_cast<std::size_t>(at_ - start)};
    }

    // The rest of the line, unchanged.
    std::string_view rest_of_line()
    {
        const char *start = at_;
        while (at_ != end_ && *at_ != '\n') ++at_;
        return {start, static_cast<std::size_t>(at_ - start)};
    }

    std::uint64_t number(const char *what, std::uint64_t max)
    {
        const std::string_view digits = word();
        if (digits.empty()) unexpected(what);
        return number_of(digits, what, max);
    }

    std::uint64_t number_of(std::string_view digits, const char *what, std::uint64_t max)
    {
        std::uint64_t value = 0;
        const auto [stopped, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error == std::errc::invalid_argument || stopped != digits.data() + digits.size())
            fail(std::string("expected ") + what + ", found '" + shortened(digits) + "'");
        if (error != std::errc() || value > max)
            fail(std::string(what) + " is at most " + std::to_string(max) + ", not " + shortened(digits));
        return value;
    }

    [[noreturn]] void unexpected(const std::string &wanted)
    {
        skip();
        std::string found = "the end";
        if (at_ != end_) {
            const auto c = static_cast<unsigned char>(*at_);
            const std::string_view token = is_word(*at_) ? word() : std::string_view(at_, 1);
            found = c < ' ' || c > '~' ? "byte " + std::to_string(c) : "'" + shortened(token) + "'";
        }
        fail("expected " + wanted + ", found " + found);
    }

    [[noreturn]] void fail(const std::string &text) { throw Fault{"line " + std::to_string(line_) + ": " + text}; }

    // For messages: shows '?' instead of characters that a terminal, or a reader of lines, could take for something
    // else.
    static std::string shortened(std::string_view text)
    {
        std::string shown(text.substr(0, 24));
        for (char &c : shown)
            if (c < ' ' || c > '~') c = '?';
        return text.size() <= 24 ? shown : shown + "...";
    }

  private:
    const char *at_;
    const char *end_;
    std::size_t line_ = 1;
};

} // namespace stress
