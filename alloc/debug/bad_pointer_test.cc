// bad_pointer_test.cc: an address that no live block begins at is reported as what it is, by free and by realloc; so is a heap
// that was destroyed.
#include "heap/own_test_support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

extern "C" {
#include "os/maps.h"
#include "report/failfast.h"
}

namespace {

class StrayDeathTest : public test::OwnTest {
  protected:
    void SetUp() override
    {
        SKIP_UNDER_SANITIZER("it has a stack and mappings of its own");
        test::OwnTest::SetUp();
    }
};

// The kind of the report, and a line of it. Nothing is mapped at an address only where the report says so.
void expect_report(void *pointer, const std::string &kind, const std::string &line = "")
{
    const std::string said = "failfast: " + kind + ": (.|\n)*" + line;
    EXPECT_DEATH(hak_free(pointer), said);
    const std::string realloced = kind == "double_free" ? "realloc_freed" : kind;
    EXPECT_DEATH(hak_realloc(pointer, 10), "failfast: " + realloced + ": (.|\n)*" + line);
}

char of_data[64] = "data", of_bss[64];
const char of_file[64] = "constant";

TEST_F(StrayDeathTest, OutsideTheHeap)
{
    char local[64] = "local";
    expect_report(local, "stack_pointer");
    expect_report(of_data, "static_pointer");
    expect_report(of_bss, "static_pointer");
    expect_report(const_cast<char *>(of_file), "foreign_pointer");
    const std::string nothing = "nothing is mapped there";
    char *pages = static_cast<char *>(mmap(nullptr, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(pages + 4096, 4096);
    for (char *end : {pages, pages + 4096 - 16, pages + 2 * 4096}) expect_report(end, "foreign_pointer");
    for (char *hole : {pages + 4096, pages + 2 * 4096 - 16}) expect_report(hole, "foreign_pointer", nothing);
    munmap(pages, 3 * 4096);
    test::in_thread([&] {
        char lent[64];
        expect_report(lent, "stack_pointer");
        expect_report(local, "stack_pointer");
        // The thread's own control block lies above its stack, in the same mapping.
        expect_report(__builtin_thread_pointer(), "foreign_pointer");
        expect_report(static_cast<char *>(__builtin_thread_pointer()) - 16, "stack_pointer");
    });
}

// A mapping that begins where a module's data end is its .bss, unless the kernel has a name for it: without random
// addresses [heap] may begin there. Here a file stands for the module, and [vdso] for [heap].
TEST_F(StrayDeathTest, BehindAModulesData)
{
    maps_entry vdso = {};
    const auto is_vdso = [](const maps_entry *entry, void *found) {
        if (std::string(entry->name) != "[vdso]") return false;
        *static_cast<maps_entry *>(found) = *entry;
        return true;
    };
    ASSERT_TRUE(maps_scan(is_vdso, &vdso));
    const size_t bytes = vdso.high - vdso.low, room = PAGE_BYTES + std::max<size_t>(bytes, PAGE_BYTES);
    const int file = memfd_create("module", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, PAGE_BYTES), 0);
    char *data = static_cast<char *>(mmap(nullptr, room, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(mmap(data, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0), data);
    close(file);
    char *behind = data + PAGE_BYTES;
    expect_report(data, "static_pointer");
    expect_report(behind, "static_pointer");
    const auto moves = [&] { // for good, so in a child
        void *low = reinterpret_cast<void *>(vdso.low);
        return mremap(low, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, behind) == behind;
    };
    const bool can_move = bytes > 0 && test::in_child([&] { _exit(moves() ? 0 : 1); });
    if (can_move) EXPECT_DEATH((moves(), hak_free(behind)), "failfast: foreign_pointer: ");
    munmap(data, room);
    if (!can_move) GTEST_SKIP() << "there is no [vdso] here, or the kernel has sealed it";
}

// Without the list of mappings the report says nothing of what is where the address points.
TEST_F(StrayDeathTest, WhereTheMappingsCannotBeRead)
{
    char local[64] = "local";
    char *huge = static_cast<char *>(hak_malloc(64 * test::MIB));
    hak_free(huge);
    hak_purge_all();
    ASSERT_FALSE(huge_is_cached(huge));
    void *hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole, 4096);
    const auto free_without_files = [](void *pointer) {
        const rlimit none = {0, 0};
        if (setrlimit(RLIMIT_NOFILE, &none) == 0) hak_free(pointer);
    };
    for (void *pointer : {static_cast<void *>(local), static_cast<void *>(of_data), static_cast<void *>(huge), hole})
        EXPECT_DEATH(free_without_files(pointer),
                     "failfast: foreign_pointer: [^\n]*\nhakmem:   address [^\n]*\nhakmem:   found by ");
}

TEST_F(StrayDeathTest, WhereAHugeBlockWas)
{
    const size_t size = 64 * test::MIB;
    char *block = static_cast<char *>(hak_malloc(size));
    expect_report(block + PAGE_BYTES, "interior_pointer", "inside a huge block");
    hak_free(block);
    if (huge_is_cached(block)) expect_report(block, "double_free", "whose mapping is kept for the next one");
    hak_purge_all();
    ASSERT_FALSE(huge_is_cached(block));
    expect_report(block, "unmapped_pointer");
    void *again = mmap(block, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(again, block);
    expect_report(block, "foreign_pointer");
    munmap(again, 4096);
}

TEST_F(StrayDeathTest, InsideTheHeap)
{
    char *run = static_cast<char *>(hak_malloc(3 * PAGE_BYTES));
    expect_report(run + PAGE_BYTES, "interior_pointer", "inside a page run");
    hak_free(run);
    expect_report(run, "double_free", "its page is free now");
    hak_heap *heap = hak_heap_new();
    void *block = hak_heap_malloc(heap, 100);
    hak_heap_destroy(heap);
    expect_report(block, "destroyed_heap", "the address is that of a block");
}

class DestroyedHeapDeathTest : public test::OwnTest {};

TEST_F(DestroyedHeapDeathTest, IsNotUsed)
{
    hak_heap *heap = hak_heap_new();
    void *block = hak_malloc(10);
    hak_heap_figures figures;
    hak_heap_destroy(heap);
    const auto on_abort = [](int) { // as the handler that writes a crash record: which call found it
        const char *report;
        size_t report_bytes;
        dprintf(STDERR_FILENO, "found by %s\n", failfast_kept(&report, &report_bytes)->call);
        _exit(1);
    };
#define EXPECT_REFUSED(name, call)                                                               \
    EXPECT_EXIT((signal(SIGABRT, on_abort), (void)(call), _exit(0)), testing::ExitedWithCode(1), \
                "destroyed_heap: (.|\n)*the address is that of the heap itself(.|\n)*found by " name "\n")
    EXPECT_REFUSED("hak_heap_malloc", hak_heap_malloc(heap, 10));
    EXPECT_REFUSED("hak_heap_malloc", hak_heap_calloc(heap, 10, 1));
    EXPECT_REFUSED("hak_heap_malloc", hak_heap_aligned_alloc(heap, 64, 10));
    EXPECT_REFUSED("hak_heap_realloc", hak_heap_realloc(heap, block, 20));
    EXPECT_REFUSED("hak_heap_free_all", hak_heap_free_all(heap));
    EXPECT_REFUSED("hak_heap_destroy", hak_heap_destroy(heap));
    EXPECT_REFUSED("hak_heap_limit_set", hak_heap_limit_set(heap, 1 << 20));
    EXPECT_REFUSED("hak_heap_limit_get", hak_heap_limit_get(heap));
    EXPECT_REFUSED("hak_heap_figures_get", hak_heap_figures_get(heap, &figures, sizeof figures));
#undef EXPECT_REFUSED
    hak_free(block);
}

} // namespace
