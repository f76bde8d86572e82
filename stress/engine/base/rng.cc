#include "engine/base/rng.h"

#include <sys/random.h>
#include <time.h>

namespace stress {

std::uint64_t seed_draw()
{
    std::uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof seed)) {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        seed = static_cast<std::uint64_t>(now.tv_sec) * 1000000007ULL + static_cast<std::uint64_t>(now.tv_nsec);
    }
    return splitmix_next(seed) & ((1ULL << 53) - 1);
}

}  // namespace stress
