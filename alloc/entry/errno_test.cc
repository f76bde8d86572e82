// errno_test.cc: errno after every public function: kept where the function succeeds, and set as its comment in
// hakmem.h or crash.h says where the system refuses each call, or an argument is bad. ci/lint/lists compares the names with
// the headers.
#include "base/test_support.h"

#include <fcntl.h>

#include "hakmem/crash.h"
#include "hakmem/hakmem.h"

extern "C" {
#include "heap/own_inside.h"
#include "os/os_fault.h"
}

namespace {

using test::MIB;

constexpr int KEPT = 4711; // what the caller had before
constexpr size_t HUGE_BYTES = 9 * MIB; // not in the cache of mappings: the system must be asked

hak_heap *own_heap; // from the row of hak_heap_new to that of hak_heap_destroy
void *live_block; // of 100 bytes, live
FILE *nowhere;
int nowhere_fd;

bool is_new(void *fresh)
{
    hak_free(fresh);
    return fresh != nullptr;
}

bool fails(void *fresh)
{
    if (fresh != nullptr) hak_free(fresh);
    return fresh == nullptr;
}

bool fill(void *&fresh)
{
    fresh = hak_malloc(100);
    return fresh != nullptr;
}

hak_figures figures;
hak_stats stats;

// What a function does: `works` with the system as it is, `refused` while each call to the system fails, with errno as
// `then` afterwards. Both return whether the function's result is the one of its comment.
const struct {
    const char *function;
    bool (*works)();
    int then;
    bool (*refused)();
} CALLS[] = {
    {"hak_version", [] { return hak_version() != nullptr; }, KEPT, [] { return hak_version() != nullptr; }},
    {"hak_malloc", [] { return is_new(hak_malloc(HUGE_BYTES)); }, ENOMEM, [] { return fails(hak_malloc(HUGE_BYTES)); }},
    {"hak_malloc", [] { return is_new(hak_malloc(0)); }, ENOMEM, [] { return fails(hak_malloc(SIZE_MAX)); }},
    {"hak_calloc", [] { return is_new(hak_calloc(9, MIB)); }, ENOMEM, [] { return fails(hak_calloc(9, MIB)); }},
    {"hak_calloc", [] { return is_new(hak_calloc(0, 1)); }, ENOMEM, [] { return fails(hak_calloc(SIZE_MAX, 2)); }},
    {"hak_realloc", [] { return is_new(hak_realloc(nullptr, HUGE_BYTES)); }, ENOMEM,
     [] { return hak_realloc(live_block, HUGE_BYTES) == nullptr; }},
    {"hak_realloc", [] { return hak_realloc(hak_malloc(1), 0) == nullptr; }, ENOMEM,
     [] { return hak_realloc(live_block, SIZE_MAX) == nullptr; }},
    {"hak_reallocarray", [] { return is_new(hak_reallocarray(nullptr, 9, MIB)); }, ENOMEM,
     [] { return hak_reallocarray(live_block, 9, MIB) == nullptr; }},
    {"hak_reallocarray", [] { return is_new(hak_reallocarray(nullptr, 0, 1)); }, ENOMEM,
     [] { return hak_reallocarray(live_block, SIZE_MAX, 2) == nullptr; }},
    {"hak_free",
     [] {
         hak_free(hak_malloc(HUGE_BYTES));
         return true;
     },
     KEPT,
     [] {
         hak_free(nullptr);
         hak_free(live_block);
         os_fault_remove();
         bool filled = fill(live_block);
         os_fault_install(1, true);
         return filled;
     }},
    {"hak_free_sized",
     [] {
         hak_free_sized(hak_malloc(100), 100);
         return true;
     },
     KEPT,
     [] {
         hak_free_sized(nullptr, 0);
         return true;
     }},
    {"hak_free_aligned_sized",
     [] {
         hak_free_aligned_sized(hak_aligned_alloc(64, 100), 64, 100);
         return true;
     },
     KEPT,
     [] {
         hak_free_aligned_sized(nullptr, 64, 0);
         return true;
     }},
    {"hak_aligned_alloc", [] { return is_new(hak_aligned_alloc(4096, HUGE_BYTES)); }, ENOMEM,
     [] { return fails(hak_aligned_alloc(4096, HUGE_BYTES)); }},
    {"hak_aligned_alloc", [] { return is_new(hak_aligned_alloc(1, 1)); }, EINVAL,
     [] { return fails(hak_aligned_alloc(48, 1)) && fails(hak_aligned_alloc(0, 1)); }},
    {"hak_memalign", [] { return is_new(hak_memalign(48, 100)); }, ENOMEM,
     [] { return fails(hak_memalign(4096, HUGE_BYTES)); }},
    {"hak_memalign", [] { return is_new(hak_memalign(0, 100)); }, EINVAL,
     [] { return fails(hak_memalign(SIZE_MAX, 1)); }},
    {"hak_posix_memalign",
     [] {
         void *fresh = nullptr;
         return hak_posix_memalign(&fresh, 64, HUGE_BYTES) == 0 && is_new(fresh);
     },
     KEPT,
     [] {
         void *fresh = &fresh;
         return hak_posix_memalign(&fresh, 64, HUGE_BYTES) == ENOMEM && hak_posix_memalign(&fresh, 4, 1) == EINVAL &&
                fresh == &fresh;
     }},
    {"hak_valloc", [] { return is_new(hak_valloc(HUGE_BYTES)); }, ENOMEM, [] { return fails(hak_valloc(HUGE_BYTES)); }},
    {"hak_pvalloc", [] { return is_new(hak_pvalloc(1)); }, ENOMEM,
     [] { return fails(hak_pvalloc(HUGE_BYTES)) && fails(hak_pvalloc(SIZE_MAX)); }},
    {"hak_malloc_usable_size", [] { return hak_malloc_usable_size(live_block) >= 100; }, KEPT,
     [] { return hak_malloc_usable_size(nullptr) == 0; }},
    {"hak_purge", [] { return hak_purge() < SIZE_MAX; }, KEPT, [] { return hak_purge() < SIZE_MAX; }},
    {"hak_purge_all", [] { return hak_purge_all() < SIZE_MAX; }, KEPT, [] { return hak_purge_all() < SIZE_MAX; }},
    {"hak_background", [] { return hak_background(true) == 0 && hak_background(true) == 0; }, KEPT,
     [] { return hak_background(false) == 0 && hak_background(false) == 0; }},
    {"hak_stats_get",
     [] {
         hak_stats_get(&stats);
         return stats.heap_count > 0;
     },
     KEPT,
     [] {
         hak_stats_get(&stats);
         return stats.heap_count > 0;
     }},
    {"hak_figures_get", [] { return hak_figures_get(&figures, sizeof figures) == sizeof figures; }, KEPT,
     [] { return hak_figures_get(&figures, 8) == sizeof figures; }},
    {"hak_stats_write", [] { return hak_stats_write(nowhere_fd, HAKMEM_STATS_JSON) == 0; }, KEPT,
     [] {
         return hak_stats_write(nowhere_fd, static_cast<hak_stats_format>(9)) == EINVAL &&
                hak_stats_write(-1, HAKMEM_STATS_TEXT) == EBADF;
     }},
    {"hak_stats_print",
     [] {
         hak_stats_print(nowhere);
         return fflush(nowhere) == 0;
     },
     KEPT,
     [] {
         hak_stats_print(nowhere);
         return fflush(nowhere) == 0;
     }},
    {"hak_profile_start", [] { return hak_profile_start(0) == (VALIDATE || SANITIZED ? ENOTSUP : 0); }, KEPT,
     [] { return hak_profile_start(0) == (VALIDATE || SANITIZED ? ENOTSUP : 0); }}, // its tables are there
    {"hak_profile_dump", [] { return hak_profile_dump("/dev/null") == 0; }, KEPT,
     [] { return hak_profile_dump("/dev/null/none") == ENOTDIR; }},
    {"hak_profile_stop",
     [] {
         hak_profile_stop();
         return true;
     },
     KEPT,
     [] {
         hak_profile_stop();
         return true;
     }},
    {"hak_limit_set",
     [] {
         hak_limit_set(64 * MIB);
         return hak_limit_get() == 64 * MIB;
     },
     KEPT,
     [] {
         hak_limit_set(SIZE_MAX);
         return hak_limit_get() == SIZE_MAX;
     }},
    {"hak_limit_get", [] { return hak_limit_get() == SIZE_MAX; }, KEPT, [] { return hak_limit_get() == SIZE_MAX; }},
    {"hak_limit_soft_set",
     [] {
         hak_limit_soft_set(64 * MIB);
         return hak_limit_soft_get() == 64 * MIB;
     },
     KEPT,
     [] {
         hak_limit_soft_set(SIZE_MAX);
         return hak_limit_soft_get() == SIZE_MAX;
     }},
    {"hak_limit_soft_get", [] { return hak_limit_soft_get() == SIZE_MAX; }, KEPT,
     [] { return hak_limit_soft_get() == SIZE_MAX; }},
    {"hak_limit_callback",
     [] {
         hak_limit_callback([](size_t, void *) { return false; }, nullptr);
         return true;
     },
     ENOMEM,
     [] {
         bool failed = fails(hak_malloc(HUGE_BYTES));
         hak_limit_callback(nullptr, nullptr);
         return failed;
     }},
    {"hak_good_size", [] { return hak_good_size(100) == hak_malloc_usable_size(live_block); }, KEPT,
     [] { return hak_good_size(SIZE_MAX) == SIZE_MAX; }},
    {"hak_defrag_hint", [] { return !hak_defrag_hint(nullptr); }, KEPT, [] { return !hak_defrag_hint(&own_heap); }},
    {"hak_defrag_move", [] { return hak_defrag_move(nullptr) == nullptr; }, KEPT,
     [] { return hak_defrag_move(&own_heap) == nullptr; }},
    {"hak_malloc_at_least", [] { return is_new(hak_malloc_at_least(HUGE_BYTES).block); }, ENOMEM,
     [] {
         hak_sized_block got = hak_malloc_at_least(HUGE_BYTES);
         return got.block == nullptr && got.size_bytes == 0;
     }},
    {"hak_heap_new", [] { return (own_heap = hak_heap_new()) != nullptr; }, ENOMEM,
     [] {
         std::vector<hak_heap *> heaps;
         heaps.reserve(4096); // more than one range of metadata has room for
         while (heaps.size() < 4096 && (heaps.push_back(hak_heap_new()), heaps.back() != nullptr)) {}
         for (hak_heap *each : heaps) hak_heap_destroy(each);
         return heaps.back() == nullptr;
     }},
    {"hak_heap_malloc", [] { return is_new(hak_heap_malloc(own_heap, HUGE_BYTES)); }, ENOMEM,
     [] { return fails(hak_heap_malloc(own_heap, HUGE_BYTES)) && fails(hak_heap_malloc(own_heap, SIZE_MAX)); }},
    {"hak_heap_calloc", [] { return is_new(hak_heap_calloc(own_heap, 9, MIB)); }, ENOMEM,
     [] { return fails(hak_heap_calloc(own_heap, 9, MIB)) && fails(hak_heap_calloc(own_heap, SIZE_MAX, 2)); }},
    {"hak_heap_aligned_alloc", [] { return is_new(hak_heap_aligned_alloc(own_heap, 4096, 100)); }, EINVAL,
     [] { return fails(hak_heap_aligned_alloc(own_heap, 48, 1)); }},
    {"hak_heap_realloc", [] { return is_new(hak_heap_realloc(own_heap, nullptr, 100)); }, ENOMEM,
     [] { return fails(hak_heap_realloc(own_heap, live_block, HUGE_BYTES)); }},
    {"hak_heap_limit_set",
     [] {
         hak_heap_limit_set(own_heap, MIB);
         return hak_heap_limit_get(own_heap) == MIB;
     },
     ENOMEM, [] { return fails(hak_heap_malloc(own_heap, 2 * MIB)); }},
    {"hak_heap_limit_get", [] { return hak_heap_limit_get(own_heap) == MIB; }, KEPT,
     [] { return hak_heap_limit_get(own_heap) == MIB; }},
    {"hak_heap_figures_get",
     [] {
         hak_heap_figures of_heap;
         return hak_heap_figures_get(own_heap, &of_heap, sizeof of_heap) == sizeof of_heap;
     },
     KEPT,
     [] {
         hak_heap_figures of_heap;
         return hak_heap_figures_get(own_heap, &of_heap, 8) == sizeof of_heap;
     }},
    {"hak_heap_free_all",
     [] {
         bool filled = hak_heap_malloc(own_heap, 100) != nullptr;
         hak_heap_free_all(own_heap);
         return filled;
     },
     KEPT,
     [] {
         hak_heap_free_all(own_heap);
         return true;
     }},
    {"hak_heap_destroy",
     [] {
         hak_heap_destroy(own_heap);
         return true;
     },
     KEPT,
     [] {
         hak_heap_destroy(nullptr);
         return true;
     }},
    {"hak_crash_handler_install",
     [] {
         bool installed = hak_crash_handler_install("/tmp") == 0;
         hak_crash_handler_remove();
         return installed;
     },
     KEPT, [] { return hak_crash_handler_install("/tmp/none/such") == ENOENT; }},
    {"hak_crash_handler_remove",
     [] {
         hak_crash_handler_remove(); // none is installed
         return true;
     },
     KEPT,
     [] {
         hak_crash_handler_remove();
         return true;
     }},
    {"hak_crash_context",
     [] {
         hak_crash_context(nullptr);
         return true;
     },
     KEPT,
     [] {
         hak_crash_context(nullptr);
         return true;
     }},
};

} // namespace

// In a thread of its own: the thread that installs the crash handler keeps its signal stack until it ends.
TEST(Errno, OfEveryPublicFunction)
{
    nowhere = fopen("/dev/null", "w");
    nowhere_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    hak_stats_print(nowhere); // its buffer is there, so that writing allocates nothing
    test::in_thread([] {
        ASSERT_TRUE(fill(live_block));
        // Code that asks for errno without cause takes the first two as the answer of a call.
        for (int of_caller : {EINTR, ESRCH, KEPT})
            for (const auto &each : CALLS) {
                errno = of_caller;
                EXPECT_TRUE(each.works()) << each.function;
                EXPECT_EQ(errno, of_caller) << each.function << " does not keep errno";
                hak_purge_all();
                os_fault_install(1, true);
                errno = of_caller;
                EXPECT_TRUE(each.refused()) << each.function << ", refused";
                int then = errno;
                os_fault_remove();
                EXPECT_EQ(then, each.then == KEPT ? of_caller : each.then)
                    << each.function << " sets another errno when it is refused";
                hak_purge_all();
            }
        hak_free(live_block);
    });
    if (VALIDATE) own_dead_free_all();
    fclose(nowhere);
    close(nowhere_fd);
}
