// stacks_test.cc: a stack that is known again is the one that the unwinder finds.
#include "heap/heap_test_support.h"

#include <alloca.h>
#include <dlfcn.h>
#include <sys/utsname.h>

extern "C" {
#include "os/libc.h"
#include "os/lock.h"
#include "profile/profile.h"
#include "profile/sites.h"
#include "profile/stacks.h"
}

namespace {

// What the functions below do, the outermost first: one step, one function.
struct Program {
    std::vector<unsigned> steps;
    std::vector<size_t> sizes; // of what each keeps on the stack
    int more = 0;              // functions below them
};

void compare()
{
    void *unwound[PROFILE_FRAMES + 1];
    int count = os_backtrace(unwound, PROFILE_FRAMES + 1) - 1;
    lock_acquire(LOCK_PROFILE);
    const profile_site *site = stack_site((uintptr_t)__builtin_frame_address(0));
    lock_release(LOCK_PROFILE);
    ASSERT_EQ(site->count, (uint32_t)count);
    for (int i = 0; i < count; i++) ASSERT_EQ(site->frames[i], (uintptr_t)unwound[i + 1]) << "frame " << i;
}

__attribute__((noinline)) void compare_below(int more)
{
    if (more == 0) compare();
    else compare_below(more - 1);
    __asm__ volatile("");
}

void run(const Program &program, size_t at);
using Step = void (*)(const Program &program, size_t at);

// Keeps what is below it apart from the compiler.
__attribute__((noinline)) void next(const Program &program, size_t at)
{
    run(program, at + 1);
    __asm__ volatile("");
}

__attribute__((noinline)) void plain(const Program &program, size_t at)
{
    next(program, at);
    __asm__ volatile("");
}

// Finds its caller by the frame pointer; what it allocates keeps what was on the stack before, return addresses too.
__attribute__((noinline)) void of_any_size(const Program &program, size_t at)
{
    void *room = alloca(program.sizes[at]);
    __asm__ volatile("" ::"r"(room) : "memory");
    next(program, at);
    __asm__ volatile("" ::"r"(room) : "memory");
}

// Aligns its frame.
__attribute__((noinline)) void aligned(const Program &program, size_t at)
{
    alignas(64) char room[64];
    __asm__ volatile("" ::"r"(room) : "memory");
    next(program, at);
    __asm__ volatile("" ::"r"(room) : "memory");
}

__attribute__((noinline)) void aligned_of_any_size(const Program &program, size_t at)
{
    alignas(64) char room[64];
    void *more = alloca(program.sizes[at]);
    __asm__ volatile("" ::"r"(room), "r"(more) : "memory");
    next(program, at);
    __asm__ volatile("" ::"r"(room), "r"(more) : "memory");
}

// Uses the register of the frame pointer for something else, and all others that are its callers'.
__attribute__((noinline)) void busy(const Program &program, size_t at)
{
    size_t kept[6] = {at, at + 1, at + 2, program.sizes[at], program.steps[at], program.steps.size()};
    for (size_t &one : kept) __asm__ volatile("" : "+r"(one));
    next(program, at);
    __asm__ volatile("" ::"r"(kept[0]), "r"(kept[1]), "r"(kept[2]), "r"(kept[3]), "r"(kept[4]), "r"(kept[5]));
}

// As much stack as a step of any other kind, never written.
__attribute__((noinline)) void unwritten(const Program &program, size_t at)
{
    char room[400];
    __asm__ volatile("" ::"r"(room) : "memory");
    next(program, at);
    __asm__ volatile("" ::"r"(room) : "memory");
}

constexpr Step STEPS[] = {plain, of_any_size, aligned, aligned_of_any_size, busy, unwritten};

__attribute__((noinline)) void run(const Program &program, size_t at)
{
    if (at == program.steps.size()) compare_below(program.more);
    else STEPS[program.steps[at]](program, at);
    __asm__ volatile("");
}

uint64_t unwound()
{
    lock_acquire(LOCK_PROFILE);
    uint64_t count = stacks_unwound();
    lock_release(LOCK_PROFILE);
    return count;
}

Program draw(test::Rng &rng, size_t length_max, unsigned kinds)
{
    Program program;
    size_t length = rng.between(1, length_max);
    for (size_t i = 0; i < length; i++) {
        program.steps.push_back((unsigned)rng.below(kinds));
        program.sizes.push_back(rng.below(12) * 16 + 16);
    }
    return program;
}

// Whether the unwinder is libgcc's, which glibc loads, on the processor for which it says where it reads.
bool has_libgcc()
{
    utsname system = {};
    return uname(&system) == 0 && strcmp(system.machine, "x86_64") == 0 &&
           dlsym(RTLD_DEFAULT, "gnu_get_libc_version") != nullptr &&
           dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

} // namespace

class Stacks : public testing::Test {
  protected:
    void SetUp() override
    {
        if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
        const os_unwinder found = os_unwind_find();
        os_unwind_start(&found);
        os_frame frame;
        ASSERT_EQ(os_unwind(&frame, 1), 1u);
        if (frame.stack_pointer == 0) {
            ASSERT_FALSE(has_libgcc()) << "its unwinder was not found";
            GTEST_SKIP() << "this unwinder does not say where it reads, so each stack is unwound";
        }
        lock_acquire(LOCK_PROFILE);
        EXPECT_TRUE(sites_start());
        lock_release(LOCK_PROFILE);
    }
};

// Before libgcc's unwinder is found, as where it is missing, libc's finds the same functions.
class Unwind : public testing::Test {}; // in a process of its own

TEST_F(Unwind, BothUnwindersFindTheSame)
{
    if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
    os_frame frames[2][8];
    size_t counts[2];
    for (int i = 0; i < 2; i++) {
        counts[i] = os_unwind(frames[i], 8);
        const os_unwinder found = os_unwind_find();
        os_unwind_start(&found);
    }
    EXPECT_GE(counts[0], 1u);
    ASSERT_EQ(counts[0], counts[1]);
    for (size_t i = 1; i < counts[0]; i++) EXPECT_EQ(frames[0][i].return_address, frames[1][i].return_address) << i;
}

// Stacks of few functions, so that most paths branch, on threads whose stacks lie elsewhere.
TEST_F(Stacks, AreTheUnwindersOwn)
{
    EXPECT_TRUE(test::in_child([] {
        for (int round = 0; round < 4; round++) {
            test::in_thread([&] {
                test::Rng rng((uint64_t)round);
                for (int i = 0; i < 3000 && !HasFatalFailure(); i++) run(draw(rng, 7, std::size(STEPS)), 0);
            });
        }
    }));
}

// The second time each is found, also in another thread and at another depth of the stack.
TEST_F(Stacks, AreKnownAgain)
{
    std::vector<Program> programs;
    test::Rng rng;
    for (int i = 0; i < 200; i++) programs.push_back(draw(rng, 12, 1));
    for (int i = 0; i < 200; i++) programs.push_back(draw(rng, 6, 2));
    auto all = [&] {
        for (const Program &program : programs) run(program, 0);
    };
    test::in_thread(all);
    uint64_t before = unwound();
    test::in_thread(all);
    EXPECT_EQ(unwound(), before);
}

// A stack of more frames than a site has.
TEST_F(Stacks, Deep)
{
    Program program{std::vector<unsigned>(100, 0), std::vector<size_t>(100, 16)};
    test::in_thread([&] {
        run(program, 0);
        uint64_t before = unwound();
        run(program, 0);
        EXPECT_EQ(unwound(), before);
        // Another function far out is seen up to the outermost frame of the site.
        for (program.more = 0; program.more < 3; program.more++)
            for (unsigned &step : program.steps) {
                step = 0;
                run(program, 0);
                step = 5;
                run(program, 0);
                step = 0;
            }
    });
}

// Up to the last place each stack has a site of its own; all further ones share one without frames.
TEST_F(Stacks, SitesUpToTheLast)
{
    EXPECT_TRUE(test::in_child([] {
        lock_acquire(LOCK_PROFILE);
        size_t before = 0;
        for (const profile_site *site = profile_sites(); site != nullptr; site = site->next) before++;
        std::vector<profile_site *> sites;
        auto of = [](size_t i) {
            os_frame frames[2] = {{0x1000 + 16 * i, 0, 0}, {0x2000, 0, 0}};
            site_modules modules;
            profile_site *site = site_of(frames, 2, &modules);
            EXPECT_EQ(modules.count, 0u);
            return site;
        };
        const size_t room = PROFILE_SITES_MAX - before;
        for (size_t i = 0; i < room + 10; i++) sites.push_back(of(i));
        for (size_t i = 0; i < room + 10; i++) {
            ASSERT_EQ(of(i), sites[i]) << i;
            ASSERT_EQ(sites[i]->count, i < room ? 2u : 0u) << i;
            if (i < room) ASSERT_EQ(sites[i]->frames[0], 0x1000 + 16 * i);
            if (i >= room) ASSERT_EQ(sites[i], sites[room]);
        }
        size_t after = 0;
        for (const profile_site *site = profile_sites(); site != nullptr; site = site->next) after++;
        EXPECT_EQ(after, (size_t)PROFILE_SITES_MAX);
        lock_release(LOCK_PROFILE);
    }));
}
