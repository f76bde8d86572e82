// override_new_test.cc: operator new and delete, in the program of override_test.cc.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "override_test_support.h"

namespace {

constexpr size_t TOO_LARGE = (size_t)PTRDIFF_MAX - 4096;

void *held_for_handler;
int handler_calls;

class HandlerScope {
  public:
    explicit HandlerScope(std::new_handler handler) : before_(std::set_new_handler(handler)) { handler_calls = 0; }
    ~HandlerScope() { std::set_new_handler(before_); }

  private:
    std::new_handler before_;
};

struct HandlerGaveUp {};

constexpr std::align_val_t LINE{64};

} // namespace

TEST(OverrideNew, EveryForm)
{
    for (size_t size : {0u, 1u, 100u, 5000u, 100000u, 10000000u}) {
        void *p = opaque(::operator new(size));
        expect_block(p, size);
        ::operator delete(p);
        p = opaque(::operator new[](size));
        expect_block(p, size);
        ::operator delete[](p);
        p = opaque(::operator new(size, std::nothrow));
        expect_block(p, size);
        ::operator delete(p, std::nothrow);
        p = opaque(::operator new[](size, std::nothrow));
        expect_block(p, size);
        ::operator delete[](p, std::nothrow);
        p = opaque(::operator new(size));
        ::operator delete(p, size);
        p = opaque(::operator new[](size));
        ::operator delete[](p, size);
        for (size_t align : {16u, 64u, 4096u, 1u << 20}) {
            std::align_val_t a{align};
            p = opaque(::operator new(size, a));
            expect_block(p, size, align);
            ::operator delete(p, a);
            p = opaque(::operator new[](size, a));
            expect_block(p, size, align);
            ::operator delete[](p, a);
            p = opaque(::operator new(size, a, std::nothrow));
            expect_block(p, size, align);
            ::operator delete(p, a, std::nothrow);
            p = opaque(::operator new[](size, a, std::nothrow));
            expect_block(p, size, align);
            ::operator delete[](p, a, std::nothrow);
            p = opaque(::operator new(size, a));
            ::operator delete(p, size, a);
            p = opaque(::operator new[](size, a));
            ::operator delete[](p, size, a);
        }
    }
    ::operator delete(opaque((void *)nullptr));
    void *first = opaque(::operator new(0)), *second = opaque(::operator new(0));
    EXPECT_NE(first, second);
    ::operator delete(first);
    ::operator delete(second);
    struct alignas(256) Line {
        char bytes[300];
    };
    auto line = std::make_unique<Line[]>(5);
    EXPECT_TRUE(is_aligned(opaque(line.get()), 256));
}

TEST(OverrideNew, TooLargeThrows)
{
    EXPECT_THROW(opaque(::operator new(opaque(TOO_LARGE))), std::bad_alloc);
    EXPECT_THROW(opaque(::operator new[](opaque(TOO_LARGE))), std::bad_alloc);
    EXPECT_THROW(opaque(::operator new(opaque(TOO_LARGE), LINE)), std::bad_alloc);
    EXPECT_THROW(opaque(::operator new[](opaque(TOO_LARGE), LINE)), std::bad_alloc);
    EXPECT_THROW(std::vector<char>().reserve(opaque((size_t)PTRDIFF_MAX)), std::exception);
}

TEST(OverrideNew, TooLargeNothrowIsNull)
{
    EXPECT_EQ(opaque(::operator new(opaque(TOO_LARGE), std::nothrow)), nullptr);
    EXPECT_EQ(opaque(::operator new[](opaque(TOO_LARGE), std::nothrow)), nullptr);
    EXPECT_EQ(opaque(::operator new(opaque(TOO_LARGE), LINE, std::nothrow)), nullptr);
    EXPECT_EQ(opaque(::operator new[](opaque(TOO_LARGE), LINE, std::nothrow)), nullptr);
}

TEST(OverrideNew, AHandlerThatThrows)
{
    HandlerScope scope([] {
        if (++handler_calls == 3) throw HandlerGaveUp();
    });
    EXPECT_THROW(opaque(::operator new(opaque(TOO_LARGE))), HandlerGaveUp);
    EXPECT_EQ(handler_calls, 3) << "it is called until it throws";
    handler_calls = 0;
    EXPECT_THROW(opaque(::operator new[](opaque(TOO_LARGE), LINE)), HandlerGaveUp);
    EXPECT_EQ(handler_calls, 3);
}

TEST(OverrideNew, AHandlerThatThrowsBadAllocUnderNothrow)
{
    HandlerScope scope([] {
        handler_calls++;
        throw std::bad_alloc();
    });
    EXPECT_EQ(opaque(::operator new(opaque(TOO_LARGE), std::nothrow)), nullptr);
    EXPECT_EQ(opaque(::operator new[](opaque(TOO_LARGE), std::nothrow)), nullptr);
    EXPECT_EQ(opaque(::operator new(opaque(TOO_LARGE), LINE, std::nothrow)), nullptr);
    EXPECT_EQ(handler_calls, 3);
}

TEST(OverrideNew, AHandlerThatRemovesItself)
{
    HandlerScope scope([] {
        handler_calls++;
        std::set_new_handler(nullptr);
    });
    EXPECT_THROW(opaque(::operator new(opaque(TOO_LARGE))), std::bad_alloc);
    EXPECT_EQ(handler_calls, 1);
    EXPECT_EQ(std::get_new_handler(), nullptr);
    std::set_new_handler([] {
        handler_calls++;
        std::set_new_handler(nullptr);
    });
    EXPECT_EQ(opaque(::operator new(opaque(TOO_LARGE), std::nothrow)), nullptr);
    EXPECT_EQ(handler_calls, 2);
}

// In a child, which may use 256 MiB more than now.
TEST(OverrideNew, AHandlerThatFreesMemory)
{
    fflush(stdout);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        FILE *statm = fopen("/proc/self/statm", "r");
        unsigned long pages = 0;
        if (fscanf(statm, "%lu", &pages) != 1) _exit(10);
        fclose(statm);
        rlim_t bytes = pages * (rlim_t)getpagesize() + (256u << 20);
        struct rlimit limit = {bytes, bytes};
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(11);
        constexpr size_t MOST = 200u << 20;
        held_for_handler = opaque(malloc(MOST));
        if (held_for_handler == nullptr) _exit(12);
        handler_calls = 0;
        std::set_new_handler([] {
            handler_calls++;
            if (held_for_handler == nullptr) _exit(13);
            free(held_for_handler);
            held_for_handler = nullptr;
        });
        void *block = opaque(::operator new(opaque(MOST)));
        if (block == nullptr || handler_calls != 1) _exit(14);
        ::operator delete(block);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}
