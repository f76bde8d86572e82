// golden_test.cc: what the heap does, to the call and the byte, in programs that cover its parts. A change that is meant
// to keep behaviour keeps golden.txt; one that changes it on purpose writes the file again, so that a reviewer reads what
// changed: see CONTRIBUTING.md. A test elsewhere says what the behaviour should be; here it is only what it was.
#include "entry/golden_test_support.h"

extern "C" {
#include "heap/huge.h"
#include "os/os.h"
#include "superslab/purge.h"
}

using test::MIB;
using test::golden::note;
using test::golden::noted;
using test::golden::Numbers;
using test::golden::pass_ms;
using test::golden::phase;
using test::golden::Slots;
using test::golden::Worker;

TEST(Golden, Small)
{
    test::golden::record("small", [] {
        phase("start");
        Slots slots(4000, 1);
        auto size = [&] { return slots.numbers.size(3, slots.numbers.one_in(50) ? 15 : 10); };
        slots.fill(size);
        phase("filled");
        slots.churn(40000, size);
        phase("churned");
        slots.thin(20);
        phase("thinned");
        slots.churn(4000, size);
        phase("again");
        note(hak_purge());
        phase("purged");
        slots.thin(0);
        note(hak_purge());
        phase("empty");
    });
}

TEST(Golden, Classes)
{
    test::golden::record("classes", [] {
        std::vector<std::vector<void *>> blocks(CLASS_COUNT);
        for (uint32_t c = 0; c < CLASS_COUNT; c++)
            for (size_t i = 0; i < 300; i++) {
                size_t bytes = sizeclass_bytes(c),
                       align_bytes = bytes & -bytes; // only aligned blocks have those classes
                blocks[c].push_back(
                    noted(c >= CLASS_ALIGNED_FIRST ? hak_aligned_alloc(align_bytes, bytes) : hak_calloc(1, bytes)));
            }
        phase("filled");
        for (size_t align_bytes = 8; align_bytes <= 4 * PAGE_BYTES; align_bytes *= 2)
            for (size_t bytes : {(size_t)1, align_bytes, (size_t)SMALL_BYTES_MAX, SMALL_BYTES_MAX + align_bytes}) {
                void *block = noted(hak_aligned_alloc(align_bytes, bytes));
                note(hak_malloc_usable_size(block));
                if (align_bytes % 3 == 2) hak_free_aligned_sized(block, align_bytes, bytes);
                else hak_free(block);
            }
        phase("aligned");
        for (auto &of_class : blocks)
            for (size_t i = 0; i < of_class.size(); i += 2) hak_free(std::exchange(of_class[i], nullptr));
        phase("half");
        for (auto &of_class : blocks) // so that pages of the system are free in slabs of each class
            for (size_t i = 0; i < of_class.size(); i++)
                if (i % 8 != 1) hak_free(std::exchange(of_class[i], nullptr));
        note(hak_purge());
        phase("trimmed");
        for (uint32_t c = 0; c + 1 < CLASS_COUNT; c++)
            for (void *&block : blocks[c])
                if (block != nullptr) block = noted(hak_realloc(block, sizeclass_bytes(c + 1)));
        phase("grown");
        for (auto &of_class : blocks)
            for (void *block : of_class) hak_free(block);
        phase("free");
        for (uint32_t c = CLASS_COUNT; c-- > 0;) hak_free(noted(hak_malloc(sizeclass_bytes(c))));
        note(hak_purge_all());
        phase("empty");
    });
}

TEST(Golden, Runs)
{
    test::golden::record("runs", [] {
        Slots slots(150, 2);
        auto size = [&] { return slots.numbers.size(15, 21); };
        slots.fill(size);
        phase("filled");
        slots.churn(2000, size);
        phase("churned");
        slots.resize(1000, size);
        phase("resized");
        slots.thin(5);
        phase("thinned");
        for (size_t i = 0; i < slots.size(); i += 3) {
            hak_free(slots[i]);
            size_t align_bytes = size_t{1} << slots.numbers.between(12, 21);
            slots[i] = noted(hak_aligned_alloc(align_bytes, size()));
        }
        phase("aligned");
        slots.thin(0);
        note(hak_purge());
        phase("empty");
    });
}

TEST(Golden, Huge)
{
    test::golden::record("huge", [] {
        Slots slots(12, 3);
        auto size = [&] { return slots.numbers.between(2 * MIB, 40 * MIB); };
        slots.fill(size);
        phase("filled");
        slots.churn(300, size);
        phase("churned");
        slots.resize(200, size);
        phase("resized");
        slots.thin(3);
        huge_set_cache_bytes(16 * MIB);
        slots.churn(100, size);
        phase("small-cache");
        for (size_t i = 0; i < slots.size(); i += 2) {
            hak_free(slots[i]);
            size_t align_bytes = size_t{1} << slots.numbers.between(20, 26);
            slots[i] = noted(hak_aligned_alloc(align_bytes, size()));
        }
        phase("aligned");
        slots.thin(0);
        note(hak_purge());
        phase("empty");
    });
}

TEST(Golden, Realloc)
{
    test::golden::record("realloc", [] {
        Numbers numbers(4);
        std::vector<std::pair<void *, size_t>> growing(40);
        for (int step = 0; step < 3000; step++) {
            auto &[block, size] = growing[numbers.below(growing.size())];
            size = size > 6 * MIB ? 10 : size + size / 2 + numbers.below(40) + 1;
            block = noted(hak_realloc(block, size));
            static_cast<char *>(block)[size - 1] = 1;
            if (step % 1000 == 999) phase(step < 1000 ? "first" : step < 2000 ? "second" : "third");
        }
        for (auto &[block, size] : growing) {
            block = noted(hak_realloc(block, size / 3 + 1));
            note(hak_malloc_usable_size(block));
        }
        phase("shrunk");
        for (auto &[block, size] : growing) note(noted(hak_realloc(block, 0)) == nullptr);
        note(hak_purge());
        phase("empty");
    });
}

TEST(Golden, Threads)
{
    test::golden::record("threads", [] {
        constexpr size_t THREADS = 4;
        Slots slots(2000, 5);
        auto size = [&] { return slots.numbers.size(3, slots.numbers.one_in(100) ? 17 : 9); };
        for (const char *round : {"first", "second", "third"}) {
            std::vector<std::unique_ptr<Worker>> workers;
            for (size_t i = 0; i < THREADS; i++) workers.push_back(std::make_unique<Worker>());
            for (int turn = 0; turn < 80; turn++)
                workers[slots.numbers.below(THREADS)]->run([&] { slots.churn(slots.numbers.below(1000), size); });
            phase(round);
            workers[0]->run([] { note(hak_purge_all()); });
            workers.pop_back(); // the others are still there when the first figures of their end are taken
            phase((std::string(round) + "-ended").c_str());
        }
        slots.thin(0);
        note(hak_purge_all());
        phase("empty");
    });
}

TEST(Golden, RemoteFree)
{
    test::golden::record("remote-free", [] {
        Worker producer, consumer;
        Slots slots(3000, 6);
        auto size = [&] { return slots.numbers.size(4, 12); };
        for (const char *round : {"first", "second", "third"}) {
            producer.run([&] { slots.fill(size); });
            consumer.run([&] { slots.thin(round[0] == 't' ? 0 : 4); });
            phase(round);
        }
        producer.run([&] { slots.fill(size); });
        slots.thin(0); // a third thread
        consumer.run([] { note(hak_purge()); });
        phase("posted");
        producer.run([] { note(hak_purge()); });
        phase("empty");
    });
}

TEST(Golden, Own)
{
    test::golden::record("own", [] {
        Numbers numbers(7);
        std::vector<hak_heap *> heaps;
        for (int i = 0; i < 6; i++) heaps.push_back(noted(hak_heap_new()));
        hak_heap_limit_set(heaps[1], 4 * MIB);
        std::vector<void *> blocks(800);
        for (int i = 0; i < 6000; i++) {
            void *&block = blocks[numbers.below(blocks.size())];
            hak_heap *heap = heaps[numbers.below(heaps.size())];
            size_t size = numbers.size(3, numbers.one_in(20) ? 22 : 11);
            if (numbers.one_in(3)) {
                if (void *changed = noted(hak_heap_realloc(heap, block, size))) block = changed;
            } else {
                hak_free(block);
                block = noted(numbers.one_in(4) ? hak_heap_aligned_alloc(heap, size_t{16} << numbers.below(10), size)
                                                : hak_heap_malloc(heap, size));
            }
        }
        for (hak_heap *heap : heaps) {
            hak_heap_figures of_heap;
            hak_heap_figures_get(heap, &of_heap, sizeof of_heap);
            for (uint64_t value : {of_heap.used_bytes, of_heap.resident_bytes, of_heap.resident_peak_bytes,
                                   of_heap.committed_bytes, of_heap.limit_bytes})
                note(value);
        }
        phase("filled");
        hak_heap_free_all(heaps[0]);
        hak_heap_destroy(heaps[2]);
        for (int i = 0; i < 3000; i++) note(hak_heap_malloc(heaps[0], numbers.size(3, 10)));
        phase("again");
        for (hak_heap *heap : heaps)
            if (heap != heaps[2]) hak_heap_destroy(heap);
        note(hak_purge_all());
        phase("empty");
    });
}

TEST(Golden, Limit)
{
    test::golden::record("limit", [] {
        Slots slots(600, 8);
        auto size = [&] { return slots.numbers.size(4, 22); };
        hak_limit_set(48 * MIB);
        hak_limit_soft_set(32 * MIB);
        slots.churn(3000, size);
        phase("hard");
        hak_limit_set(SIZE_MAX);
        slots.churn(1000, size);
        phase("soft");
        slots.thin(0);
        note(hak_purge());
        phase("empty");
    });
}

TEST(Golden, Refused)
{
    test::golden::record("refused", [] {
        for (unsigned nth : {1u, 2u, 3u, 5u, 8u}) {
            Slots slots(400, 9 + nth);
            auto size = [&] { return slots.numbers.size(4, slots.numbers.one_in(4) ? 23 : 14); };
            test::golden::fail_each(nth);
            slots.churn(1500, size);
            slots.resize(500, size);
            phase(("churned-" + std::to_string(nth)).c_str());
            note(hak_purge_all());
            slots.thin(8);
            test::golden::fail_each(0);
            slots.churn(500, size);
            slots.thin(0);
            note(hak_purge_all());
            phase(("empty-" + std::to_string(nth)).c_str());
        }
    });
}

TEST(Golden, Fork)
{
    test::golden::record("fork", [] {
        Slots slots(2000, 10);
        auto size = [&] { return slots.numbers.size(3, slots.numbers.one_in(60) ? 22 : 10); };
        Worker other;
        other.run([&] { slots.fill(size); });
        slots.churn(5000, size);
        EXPECT_TRUE(test::in_child([&] { // the other thread's heap has no thread here
            os_purge_by_advice(true); // as in record()
            phase("forked");
            slots.churn(5000, size);
            phase("child");
            slots.thin(0);
            note(hak_purge_all());
            phase("empty");
        }));
    });
}

TEST(Golden, Time)
{
    test::golden::record("time", [] {
        Slots slots(3000, 11);
        auto small = [&] { return slots.numbers.size(3, 11); };
        auto any = [&] { return slots.numbers.size(3, slots.numbers.one_in(20) ? 24 : 12); };
        for (int cycle = 0; cycle < 3; cycle++) {
            slots.fill(small);
            slots.thin(10);
            for (int step = 0; step < 12; step++) {
                pass_ms(PURGE_DELAY_MS / 4);
                slots.churn(20, any);
            }
            phase(("idle-" + std::to_string(cycle)).c_str());
        }
        for (int step = 0; step < 40; step++) {
            slots.churn(300, any);
            pass_ms(PURGE_DELAY_MS / 2);
        }
        phase("steady");
        slots.thin(0);
        for (int step = 0; step < 20; step++) {
            pass_ms(PURGE_DELAY_MS);
            hak_free(noted(hak_malloc(small())));
        }
        phase("fading");
        for (int step = 0; step < 60; step++) {
            void *big = noted(hak_malloc(5 * MIB + slots.numbers.below(20 * MIB)));
            pass_ms(PURGE_DELAY_MS * 2 / 3);
            hak_free(big);
        }
        phase("big");
        pass_ms(PURGE_DELAY_MS * 100);
        slots.churn(100, small);
        phase("late");
    });
}

// A walk through all of it: threads that come and go, bursts, pauses, a system that refuses.
TEST(Golden, Walk)
{
    test::golden::record("walk", [] {
        Slots small(2500, 12), runs(60, 13), huge(8, 14);
        Numbers numbers(15);
        std::vector<std::unique_ptr<Worker>> workers(3);
        auto of_small = [&] { return numbers.size(3, numbers.one_in(30) ? 15 : 10); };
        auto of_runs = [&] { return numbers.size(15, 21); };
        auto of_huge = [&] { return numbers.between(2 * MIB, 12 * MIB); };
        auto step = [&] {
            switch (numbers.below(16)) {
            case 0: return runs.churn(numbers.below(60), of_runs);
            case 1: return huge.churn(numbers.below(6), of_huge);
            case 2: return small.resize(numbers.below(300), of_small);
            case 3: return runs.resize(numbers.below(20), of_runs);
            case 4: return huge.resize(numbers.below(3), of_huge);
            case 5: return small.thin(numbers.below(20));
            case 6: return runs.thin(numbers.below(4));
            case 7: return huge.thin(numbers.below(3));
            case 8: return small.fill(of_small);
            case 9: return pass_ms(numbers.below(PURGE_DELAY_MS));
            case 10: return pass_ms(numbers.below(PURGE_DELAY_MS * (numbers.one_in(4) ? 12 : 3)));
            case 11: return note(numbers.one_in(6) ? hak_purge_all() : numbers.one_in(3) ? hak_purge() : 0);
            default: return small.churn(numbers.below(2000), of_small);
            }
        };
        for (int i = 1; i <= 2400; i++) {
            auto &worker = workers[numbers.below(workers.size())];
            if (numbers.one_in(40)) worker.reset();
            if (worker == nullptr) worker = std::make_unique<Worker>();
            bool fails = numbers.one_in(25);
            if (fails) test::golden::fail_each(1 + numbers.below(3));
            worker->run(step);
            if (fails) test::golden::fail_each(0);
            if (i % 300 == 0) phase(std::to_string(i).c_str());
        }
    });
}
