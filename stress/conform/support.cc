#include "conform/support.h"
#include "engine/base/libc.h"
#include "engine/watch/outside.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace stress::conform {

void sleep_ms(long milliseconds)
{
    const timespec pause{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
    nanosleep(&pause, nullptr);
}

void Pause::operator()()
{
    constexpr int eager = 200;
    if (++looks_ <= eager) sleep_ms(0);
    else sleep_ms(looks_ < 2 * eager ? 1 : 5);
}

void wait_until(const std::atomic<int> &value, int wanted)
{
    for (Pause pause; value.load() < wanted;) pause();
}

bool wait_at_most(const std::atomic<int> &value, int wanted, double seconds)
{
    const double end = now_seconds() + seconds;
    for (Pause pause; value.load() < wanted; pause())
        if (now_seconds() > end) return false;
    return true;
}

const char *wrong_text(const char *format, ...)
{
    static char texts[16][240];
    static std::atomic<unsigned> next;
    char(&text)[240] = texts[next.fetch_add(1, std::memory_order_relaxed) % 16];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

const char *errno_text(int error)
{
    if (error == 0) return "0";
    const char *name = error_name(error);
    return name != nullptr ? name : wrong_text("%d", error);
}

void end_fork(const char *wrong)
{
    if (wrong != nullptr) std::snprintf(wrong_of_fork().data(), wrong_of_fork().size(), "%s", wrong);
    _exit(wrong == nullptr ? 0 : 1);
}

pid_t fork_of_check()
{
    constexpr std::size_t spin_seconds = 600; // ten times what the runner waits by default
    const pid_t parent = getpid();
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    wrong_of_fork()[0] = '\0';
    pid_t child = 0;
    {
        // Before fork returns in the child it cannot ask to die with its parent: one that spins there ends by this.
        const Limit limit(RLIMIT_CPU, static_cast<std::size_t>(used.tv_sec), spin_seconds);
        child = fork();
    }
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    calls_after_fork();
    return 0;
}

const char *judge_fork(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (killed_from_outside(status)) kill(getpid(), SIGKILL); // no verdict: the runner makes the check again
    if (WIFSIGNALED(status)) return wrong_text("ended by SIG%s", signal_name(WTERMSIG(status)));
    if (WEXITSTATUS(status) == 0) return nullptr;
    const char *wrong = wrong_of_fork().data();
    return wrong[0] != '\0' ? wrong_text("found: %s", wrong) : wrong_text("ended with status %d", WEXITSTATUS(status));
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

} // namespace

void fill(void *block, std::size_t size, unsigned char seed)
{
    for (std::size_t i = 0; i < size; ++i) bytes_of(block)[i] = expected(i, seed);
}

std::size_t filled_until(const void *block, std::size_t size, unsigned char seed)
{
    for (std::size_t i = 0; i < size; ++i)
        if (static_cast<const unsigned char *>(block)[i] != expected(i, seed)) return i;
    return SIZE_MAX;
}

bool filled(const void *block, std::size_t size, unsigned char seed)
{
    return filled_until(block, size, seed) == SIZE_MAX;
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

namespace {

const char *exercise_size(const Subject &subject, std::size_t size)
{
    errno = 0;
    void *block = launder(subject.malloc(size));
    if (block == nullptr) return wrong_text("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
    mark(block, size, 1);
    errno = 0;
    void *zero = launder(subject.calloc(size, 1));
    if (zero == nullptr) return wrong_text("calloc(%zu, 1) gave NULL, errno %s", size, errno_text(errno));
    if (size <= 1 << 20 && !all_zero(zero, size))
        return wrong_text("calloc(%zu, 1) gave %p, which is not zero", size, zero);
    mark(zero, size, 2);
    const std::size_t more = size + size / 2 + 1;
    errno = 0;
    void *larger = launder(subject.realloc(block, more));
    if (larger == nullptr)
        return wrong_text("realloc(%p of %zu bytes, %zu) gave NULL, errno %s", block, size, more, errno_text(errno));
    if (const std::size_t kept = size < 64 ? size : 64, at = filled_until(larger, kept, 1); at != SIZE_MAX)
        return wrong_text("realloc(%p of %zu bytes, %zu) gave %p and lost byte %zu of what the block held", block, size,
                          more, larger, at);
    errno = 0;
    void *aligned = subject.memalign != nullptr ? launder(subject.memalign(4096, size)) : nullptr;
    if (subject.memalign != nullptr && aligned == nullptr)
        return wrong_text("memalign(4096, %zu) gave NULL, errno %s", size, errno_text(errno));
    if (!is_aligned(aligned, 4096))
        return wrong_text("memalign(4096, %zu) gave %p, which is not aligned", size, aligned);
    if (!marked(zero, size, 2))
        return wrong_text("the block %p of calloc(%zu, 1) changed while it was live", zero, size);
    subject.free(zero);
    subject.free(larger);
    if (aligned != nullptr) subject.free(aligned);
    return nullptr;
}

} // namespace

const char *exercise(const Subject &subject)
{
    for (std::size_t size : all_sizes())
        if (const char *wrong = exercise_size(subject, size)) return wrong;
    return nullptr;
}

} // namespace stress::conform
