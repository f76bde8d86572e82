#include "conform/support.h"
#include "engine/base/libc.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <cstdio>
#include <cstring>

namespace stress::conform {

void sleep_ms(long milliseconds)
{
    const timespec pause{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
    nanosleep(&pause, nullptr);
}

bool wait_for(const std::atomic<int> &value, int wanted, double seconds)
{
    const double end = now_seconds() + seconds;
    while (value.load() < wanted) {
        if (now_seconds() > end) return false;
        sleep_ms(1);
    }
    return true;
}

void end_fork(const char *wrong)
{
    if (wrong != nullptr) {
        [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, wrong, std::strlen(wrong));
    }
    _exit(wrong == nullptr ? 0 : 1);
}

const char *judge_fork(pid_t child, double seconds)
{
    static char text[120];
    const double end = now_seconds() + seconds;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) != child) {
        if (now_seconds() > end) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            std::snprintf(text, sizeof text, "did not end in %g s", seconds);
            return text;
        }
        sleep_ms(1);
    }
    if (WIFSIGNALED(status)) {
        std::snprintf(text, sizeof text, "ended by SIG%s", signal_name(WTERMSIG(status)));
        return text;
    }
    return WEXITSTATUS(status) == 0 ? nullptr : "found its memory in disorder (see the last line it printed)";
}

Limit::Limit(int resource, std::size_t used_bytes, std::size_t more_bytes) : resource_(resource)
{
    rlimit limit{};
    if (getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &limit) != 0) return;
    before_ = limit.rlim_cur;
    limit.rlim_cur = used_bytes + more_bytes;
    set_ = setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &limit) == 0;
}

Limit::~Limit()
{
    if (!set_) return;
    rlimit limit{};
    getrlimit(static_cast<decltype(RLIMIT_AS)>(resource_), &limit);
    limit.rlim_cur = before_;
    setrlimit(static_cast<decltype(RLIMIT_AS)>(resource_), &limit);
}

std::span<const std::size_t> all_sizes()
{
    static constexpr std::size_t sizes[] = {
        1,    8,        16,    24,      100,       512,     1000,           1024,          4000,      4096,
        9001, 32 << 10, 65536, 100'000, 256 << 10, 1 << 20, (2 << 20) - 64, (2 << 20) + 1, 5'000'000, 17 << 20};
    return sizes;
}

namespace {

unsigned char expected(std::size_t offset, unsigned char seed)
{
    return static_cast<unsigned char>(offset * 7 + seed);
}

constexpr std::size_t kEdge = 64;

}  // namespace

void fill(void *block, std::size_t size, unsigned char seed)
{
    for (std::size_t i = 0; i < size; ++i) bytes_of(block)[i] = expected(i, seed);
}

bool filled(const void *block, std::size_t size, unsigned char seed)
{
    for (std::size_t i = 0; i < size; ++i)
        if (static_cast<const unsigned char *>(block)[i] != expected(i, seed)) return false;
    return true;
}

void mark(void *block, std::size_t size, unsigned char seed)
{
    if (size <= 2 * kEdge) return fill(block, size, seed);
    fill(block, kEdge, seed);
    fill(bytes_of(block) + size - kEdge, kEdge, seed);
}

bool marked(const void *block, std::size_t size, unsigned char seed)
{
    if (size <= 2 * kEdge) return filled(block, size, seed);
    return filled(block, kEdge, seed) && filled(static_cast<const unsigned char *>(block) + size - kEdge, kEdge, seed);
}

bool all_zero(const void *block, std::size_t size)
{
    const auto *bytes = static_cast<const unsigned char *>(block);
    if (size == 0) return true;
    return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

const char *exercise(const Subject &subject)
{
    for (std::size_t size : all_sizes()) {
        void *block = launder(subject.malloc(size));
        if (block == nullptr) return "malloc gave no memory";
        mark(block, size, 1);
        void *zero = launder(subject.calloc(size, 1));
        if (zero == nullptr) return "calloc gave no memory";
        if (size <= 1 << 20 && !all_zero(zero, size)) return "calloc gave a block that is not zero";
        mark(zero, size, 2);
        void *larger = launder(subject.realloc(block, size + size / 2 + 1));
        if (larger == nullptr) return "realloc gave no memory";
        if (!filled(larger, size < 64 ? size : 64, 1)) return "realloc lost what the block held";
        void *aligned = subject.memalign != nullptr ? launder(subject.memalign(4096, size)) : nullptr;
        if (subject.memalign != nullptr && (aligned == nullptr || !is_aligned(aligned, 4096)))
            return "memalign gave no block, or one that is not aligned";
        if (!marked(zero, size, 2)) return "a block changed";
        subject.free(zero);
        subject.free(larger);
        if (aligned != nullptr) subject.free(aligned);
    }
    return nullptr;
}

}  // namespace stress::conform
