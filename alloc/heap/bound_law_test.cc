// bound_law_test.cc: the law of failures at a limit: malloc returns NULL only for what is not there. What lies idle, wherever it lies,
// serves a block of any kind, by whichever limit the process is bound.
#include "heap/heap_test_support.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>

extern "C" {
#include "superslab/limit.h"
#include "superslab/purse.h"
}

namespace {

using test::MIB;

constexpr size_t IDLE_BYTES = 24 * MIB;

enum class By { HeapLimit, AddressSpace };
By bound_by;

void bind()
{
    if (bound_by == By::HeapLimit) hak_limit_set(limit_committed_bytes());
    else test::limit_address_space(test::address_space_bytes());
}
void unbind()
{
    if (bound_by == By::HeapLimit) hak_limit_set(SIZE_MAX);
    else test::limit_address_space(RLIM_INFINITY);
}

void *blocks_of(size_t size, size_t bytes, hak_heap *heap = nullptr) // a list
{
    void *list = nullptr;
    for (size_t sum = 0; sum < bytes; sum += size) {
        void **block = static_cast<void **>(heap != nullptr ? hak_heap_malloc(heap, size) : hak_malloc(size));
        if (block == nullptr) return ADD_FAILURE() << size, list;
        *block = list;
        list = block;
    }
    return list;
}
void free_all(void *list)
{
    while (list != nullptr) hak_free(std::exchange(list, *static_cast<void **>(list)));
}

// Who has what lies idle. The limit is set while all of it is in use; then it is freed, and `wanted` is called.
using Wanted = std::function<void()>;
struct Holder {
    const char *name;
    size_t keeps_bytes; // at most: what only its own thread can give up
    void (*hold)(size_t size, const Wanted &wanted);
};

// Another thread does what `first` says, and waits.
void beside(const std::function<void()> &first, const Wanted &then)
{
    std::atomic<int> step{0};
    std::thread other([&] {
        first();
        step = 1;
        while (step != 2) std::this_thread::yield();
    });
    while (step != 1) std::this_thread::yield();
    then();
    step = 2;
    other.join();
}

const Holder holders[] = {
    {"this thread", 0,
     [](size_t size, const Wanted &wanted) {
         void *list = blocks_of(size, IDLE_BYTES);
         bind();
         free_all(list);
         wanted();
     }},
    {"a thread that has ended", 0,
     [](size_t size, const Wanted &wanted) {
         test::in_thread([=] {
             void *list = blocks_of(size, IDLE_BYTES);
             bind();
             free_all(list);
         });
         wanted();
     }},
    {"a thread that has ended, whose blocks another one freed", 0,
     [](size_t size, const Wanted &wanted) {
         void *list = nullptr;
         test::in_thread([&] { list = blocks_of(size, IDLE_BYTES); });
         bind();
         free_all(list);
         wanted();
     }},
    {"a thread that waits", 5 * MIB,
     [](size_t size, const Wanted &wanted) {
         beside(
             [size] {
                 void *list = blocks_of(size, IDLE_BYTES);
                 bind();
                 free_all(list);
             },
             wanted);
     }},
    {"a thread that waits, whose blocks another one freed", 0,
     [](size_t size, const Wanted &wanted) {
         void *list = nullptr;
         beside([&list, size] { list = blocks_of(size, IDLE_BYTES); },
                [&] {
                    bind();
                    free_all(list);
                    wanted();
                });
     }},
    {"an arena", 0,
     [](size_t size, const Wanted &wanted) {
         hak_heap *heap = hak_heap_new();
         void *list = blocks_of(size, IDLE_BYTES, heap);
         bind();
         free_all(list);
         wanted();
         hak_heap_destroy(heap);
     }},
};

class BoundLaw : public test::HeapTest {};

} // namespace

TEST_F(BoundLaw, WhatLiesIdleServesWhatIsWanted)
{
    SKIP_UNDER_SANITIZER("it has memory of its own, and no limit on address space");
    for (const Holder &holder : holders)
        for (By by : {By::HeapLimit, By::AddressSpace})
            for (size_t held : {(size_t)200, (size_t)24000, (size_t)300000, 3 * MIB})
                for (size_t size : {(size_t)64, (size_t)20000, (size_t)450000, 4 * MIB}) {
                    const std::string what = std::string(holder.name) + " had blocks of " + std::to_string(held) +
                                             ", " + std::to_string(size) + " bytes are wanted" +
                                             (by == By::HeapLimit ? "" : ", address space is limited");
                    bound_by = by;
                    ASSERT_TRUE(test::in_child([&] {
                        holder.hold(held, [&] {
                            size_t served = 0;
                            void *list = nullptr;
                            for (void **block; (block = static_cast<void **>(hak_malloc(size))) != nullptr;
                                 list = block) {
                                *block = list;
                                served += size;
                            }
                            EXPECT_GE(served + holder.keeps_bytes, IDLE_BYTES - IDLE_BYTES / 8) << what;
                            unbind();
                            free_all(list);
                        });
                    })) << what;
                }
}
