// Text built in a signal handler, or while the heap may be broken. A fixed buffer without allocation, stdio or locale.
// Text that does not fit is cut off.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace stress {

class SafeText {
  public:
    SafeText &add(const char *text)
    {
        while (*text != '\0' && used_ < sizeof bytes_ - 1) bytes_[used_++] = *text++;
        return *this;
    }

    SafeText &add_number(std::uint64_t value, unsigned base = 10, unsigned digits_min = 1)
    {
        char digits[65];
        std::size_t at = sizeof digits - 1;
        digits[at] = '\0';
        for (; value != 0 || digits_min > 0; value /= base) {
            digits[--at] = "0123456789abcdef"[value % base];
            if (digits_min > 0) --digits_min;
        }
        return add(digits + at);
    }
    SafeText &add_hex(std::uint64_t value) { return add("0x").add_number(value, 16); }

    // Escaped for a JSON string, without the quotes.
    SafeText &add_json(const char *text)
    {
        for (; *text != '\0'; ++text) {
            const char one[2] = {*text, '\0'};
            if (*text == '"' || *text == '\\') add("\\").add(one);
            else if (static_cast<unsigned char>(*text) < 0x20 || static_cast<unsigned char>(*text) > 0x7e)
                add("\\u").add_number(static_cast<unsigned char>(*text), 16, 4);
            else add(one);
        }
        return *this;
    }

    const char *c_str()
    {
        bytes_[used_] = '\0';
        return bytes_;
    }
    std::size_t size() const { return used_; }

    // Writes the text and clears it.
    // False: the system refused a part.
    bool write_to(int fd)
    {
        std::size_t done = 0;
        while (done < used_) {
            const ssize_t written = write(fd, bytes_ + done, used_ - done);
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) break;  // nobody reads
            done += static_cast<std::size_t>(written);
        }
        const bool whole = done == used_;
        used_ = 0;
        return whole;
    }

  private:
    char bytes_[2048] = {};
    std::size_t used_ = 0;
};

}  // namespace stress
