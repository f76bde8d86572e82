// A canary, broken on purpose for the test of ci/fuzz: it reads past the end of a block if the input contains "BU".
// Instrumented, so that AddressSanitizer reports it.
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    for (std::size_t i = 0; i + 1 < size; ++i) {
        if (data[i] != 'B') continue;
        if (data[i + 1] != 'U') continue;
        auto *block = static_cast<volatile char *>(std::malloc(8));
        const char past = block[8 + i % 4];
        std::free(const_cast<char *>(block));
        return past == 0 ? 0 : -1;
    }
    return 0;
}
