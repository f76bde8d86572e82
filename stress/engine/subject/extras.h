// What some mallocs have beside malloc, under hakmem's names and found by dlsym: heaps of the program's own, a limit, a
// heap profile, a thread that purges. Each malloc that defines these functions is run with them. A function here that
// has none of its own says so: nullptr or false.
#pragma once

#include <hakmem/hakmem.h>

#include <cstddef>
#include <cstdint>

namespace stress {

struct HeapCalls {
    decltype(&hak_heap_new) make;
    decltype(&hak_heap_malloc) malloc;
    decltype(&hak_heap_calloc) calloc;
    decltype(&hak_heap_realloc) realloc;
    decltype(&hak_heap_free_all) free_all;
    decltype(&hak_heap_destroy) destroy;
};
const HeapCalls *heap_calls();

// Limits what the subject has committed. subject_limit_tighten lets it purge, and leaves it what it has then and this many
// bytes. 0: no limit.
bool subject_has_limit();
void subject_limit_set(std::uint64_t bytes);
void subject_limit_tighten(std::uint64_t more_bytes);

// Asks the subject to give up everything that it caches for any thread, by the first of the names that it has:
// hak_purge_all, mallctl of jemalloc, mi_collect, MallocExtension_ReleaseFreeMemory of gperftools, malloc_trim.
void subject_give_up();

// Starts the subject's own thread that gives idle memory back: hak_background, or jemalloc's background_thread.
bool subject_background();

// Samples about one block in each mean_bytes. False: it has no profile, or not in this build.
bool subject_profile_start(std::size_t mean_bytes);

struct ProfileSums {
    double allocated_bytes = 0, live_bytes = 0;
};
// Lets the subject write its profile, and adds up its samples. nullptr, or what is wrong with the file.
const char *subject_profile_read(ProfileSums &sums);

} // namespace stress
