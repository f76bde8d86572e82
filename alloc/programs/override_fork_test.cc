// override_fork_test.cc: fork in a program that has handlers of its own (pthread_atfork).
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

// libc allocates for the 49th handler of fork. Whichever call of the library adds one, none of its locks may be held then, and
// the child of a program with any number of handlers has its heaps.
TEST(OverrideFork, AnyNumberOfForkHandlers)
{
    auto make = reinterpret_cast<void *(*)()>(dlsym(RTLD_DEFAULT, "hak_heap_new"));
    auto take = reinterpret_cast<void *(*)(void *, size_t)>(dlsym(RTLD_DEFAULT, "hak_heap_malloc"));
    auto background = reinterpret_cast<int (*)(bool)>(dlsym(RTLD_DEFAULT, "hak_background"));
    if (make == nullptr) GTEST_SKIP() << "libc's malloc has no heaps of the program's own";
    const auto is_ended = [](pid_t child) {
        int status;
        return waitpid(child, &status, 0) == child && status == 0;
    };
    for (int count = 0; count < 100; count++) {
        pid_t child = fork();
        if (child != 0) {
            ASSERT_TRUE(is_ended(child)) << count << " handlers";
            continue;
        }
        for (int i = 0; i < count; i++) pthread_atfork(nullptr, nullptr, [] {});
        void *heap = nullptr;
        std::thread([&] { heap = make(); }).join(); // the first thing that the thread does
        bool holds = heap != nullptr && background(true) == 0 && take(heap, 100) != nullptr;
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(take(heap, 100) != nullptr && background(true) == 0 ? 0 : 1);
        _exit(holds && is_ended(grandchild) ? 0 : 1);
    }
}
