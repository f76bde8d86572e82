// Which check finds which planted bug: the rows of conform_test.cc, one for each name in CONFORM_CANARIES (conform.cmake).
#pragma once

#include <ostream>
#include <set>
#include <string>

namespace stress {

struct Canary {
    const char *bug;
    const char *check; // the check that must find it
    std::set<std::string> also; // checks that may fail too, because the bug breaks what they test
    const char *detail; // part of the message
};

void PrintTo(const Canary &canary, std::ostream *out)
{
    *out << canary.bug;
}

inline const Canary kCanaries[] = {
    Canary{"malloc_errno", "enomem-malloc", {}, "did not set errno"},
    Canary{"ptrdiff_errno",
           "enomem-ptrdiff-max",
           {"enomem-malloc", "enomem-realloc", "realloc-too-large-keeps-block", "around-powers-of-two"},
           "malloc of PTRDIFF_MAX bytes gave NULL and errno 0"},
    Canary{"held", "held-up-by-a-signal", {}, ""},
    Canary{"popped", "stopped-anywhere", {}, ""},
    Canary{"calloc_wraps", "calloc-product-wraps", {}, "gave a block"},
    Canary{"realloc_frees", "realloc-too-large-keeps-block", {}, "the block"},
    Canary{"realloc_32_bits", "realloc-above-2-gib", {}, ""},
    Canary{"reallocarray_wraps", "reallocarray-wraps", {}, ""},
    Canary{"usable_null", "usable-size-of-null", {}, "SIGABRT"},
    Canary{"no_pvalloc", "all-entries-are-ours", {}, "pvalloc"},
    Canary{"memalign_256", "size-equals-alignment", {"alignment-sweep"}, "memalign(256, 256) is not aligned"},
    Canary{"align_again", "alignment-of-memory-again", {}, "is not aligned: it is 0x"},
    Canary{"memalign_wraps", "aligned-overflow", {"near-size-max-with-a-cache"}, "gave a block"},
    Canary{"posix_pointer", "posix-memalign-keeps-pointer", {}, "changed p"},
    Canary{"free_errno",
           "free-keeps-errno",
           {"free-keeps-errno-when-denied", "free-of-locked-pages", "munmap-fails", "mapping-limit"},
           "changed errno"},
    Canary{"free_errno_denied", "free-keeps-errno-when-denied", {"munmap-fails"}, "changed errno"},
    Canary{"calloc_dirty",
           "calloc-after-dirty-free",
           {"munmap-fails", "calloc-to-the-last-byte", "calloc-after-trim", "calloc-with-huge-pages",
            "calloc-after-shrink", "calloc-after-grow", "calloc-after-remote-free", "free-of-locked-pages"},
           "is not zero"},
    Canary{"calloc_last_byte", "calloc-to-the-last-byte", {}, "is not zero"},
    Canary{"late_malloc",
           "alloc-in-every-round",
           {"dlmopen", "free-in-key-destructor", "unload", "last-and-first-moments"},
           "SIGABRT"},
    Canary{"only_free",
           "only-call-is-free",
           {"free-after-owner-ended", "calloc-after-remote-free", "thread-that-only-frees", "thread-without-memory",
            "first-call-of-a-thread", "free-in-last-rounds"},
           "SIGABRT"},
    Canary{"late_free", "free-in-last-rounds", {"thread-that-only-frees"}, "MiB resident"},
    Canary{"realloc_null", "null-and-zero", {}, "realloc(NULL, 0) gave NULL"},
    Canary{"unload", "unload", {"dlmopen"}, "SIGSEGV"},
    Canary{"stack", "small-stack", {}, "SIGSEGV"},
    Canary{"fork_lock", "fork-while-getting-memory", {}, "hangs: used no processor time for 3 s; fork "},
    Canary{"fork_handlers", "fork-while-a-stream-is-held", {"atfork-first"}, "hangs: used no processor time"},
    Canary{"static_tls", "dlopen-the-library", {}, "static TLS"},
    Canary{"loader_lock", "malloc-without-the-loader", {}, "dl_iterate_phdr"},
    Canary{"environ", "no-environ", {"dlsym-first", "huge-first"}, "SIG"},
    Canary{"environ_exit", "no-environ", {"dlsym-first", "huge-first"}, "ended with status 0; its last line: ''"},
    Canary{"getrandom", "getrandom-denied", {}, "SIGABRT"},
    Canary{"mallopt", "settings", {}, "mallopt(M_MXFAST, 0)"},
    Canary{"helper", "helpers-mask-signals", {}, "took a signal"},
    Canary{"cancel", "no-cancellation-point", {}, "cancellation"},
    Canary{"calloc_slack", "calloc-slack", {}, "is not zero, and"},
    Canary{"secure", "secure-environment", {}, "canary: statistics"},
    Canary{"calloc_errno", "enomem-calloc", {"enomem-ptrdiff-max", "thread-without-memory"}, "errno"},
    Canary{"realloc_errno", "enomem-realloc", {}, "errno"},
    Canary{"reallocarray_errno", "enomem-reallocarray", {}, "errno"},
    Canary{"aligned_errno", "enomem-aligned", {}, "errno"},
    Canary{"valloc_errno", "valloc-pvalloc-fail", {}, "failed with errno"},
    Canary{"align_2_60", "alignment-too-large", {}, "gave a block"},
    Canary{"posix_0", "posix-memalign-size-0", {}, "not aligned"},
    Canary{"pvalloc_short", "pvalloc-usable", {}, "below"},
    Canary{"reallocarray_null", "reallocarray-null-and-zero", {}, "gave NULL"},
    Canary{"realloc_steps", "realloc-in-small-steps", {}, "copied the block 200 times"},
    Canary{"calloc_touch", "calloc-untouched", {}, "MiB resident"},
    Canary{"leave_space", "threads-under-a-limit", {}, "malloc gives NULL"},
    Canary{"begin_once", "calls-under-a-lock", {}, "hangs: used no processor time"},
    Canary{"late_library", "destructors-after-the-library", {}, "SIGABRT"},
    Canary{"reallocarr_wraps", "reallocarr-wraps", {}, "returned 0"},
    Canary{"fork_fork", "fork-child-forks", {}, "the child"},
    Canary{"fork_thread", "fork-from-a-thread", {}, "SIGABRT"}};

} // namespace stress
