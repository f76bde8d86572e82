// The plain entry points: failure and errno, NULL and 0, impossible sizes, and whether every entry exists.
#include <stdio.h>
#include <string.h>

#include <cerrno>

#include "conform/check.h"
#include "conform/limits.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

// What is wrong with a call that had to fail; null if it failed as it should. Reads errno before anything else.
const char *failure_fault(const void *block)
{
    const int error = errno;
    if (block != nullptr) return wrong_text("gave a block: %p", block);
    return error == ENOMEM ? nullptr
                           : wrong_text("gave NULL and did not set errno to ENOMEM; it is %s", errno_text(error));
}

Verdict wrong_at(const char *call, std::size_t size, const char *fault)
{
    return fail("%s of %#zx bytes %s", call, size, fault);
}

Verdict malloc_fails(const Subject &s)
{
    for (std::size_t size : kImpossible) {
        errno = 0;
        if (const char *fault = failure_fault(launder(s.malloc(size)))) return wrong_at("malloc", size, fault);
    }
    return pass();
}

Verdict calloc_fails(const Subject &s)
{
    for (std::size_t size : kImpossible) {
        errno = 0;
        if (const char *fault = failure_fault(launder(s.calloc(1, size)))) return wrong_at("calloc", size, fault);
        errno = 0;
        if (const char *fault = failure_fault(launder(s.calloc(size, 1)))) return wrong_at("calloc", size, fault);
    }
    return pass();
}

Verdict calloc_product_wraps(const Subject &s)
{
    constexpr std::size_t pairs[][2] = {{SIZE_MAX / 2, 4},
                                        {SIZE_MAX / 2 + 1, 2},
                                        {std::size_t{1} << 32, std::size_t{1} << 32},
                                        {(std::size_t{1} << 32) + 1, std::size_t{1} << 32},
                                        {SIZE_MAX, SIZE_MAX},
                                        {SIZE_MAX, 2},
                                        {SIZE_MAX / 16 + 1, 16},
                                        {SIZE_MAX / 3 + 1, 3}};
    for (const auto &[count, size] : pairs)
        for (int turn = 0; turn < 2; ++turn) {
            errno = 0;
            if (const char *fault = failure_fault(launder(s.calloc(turn ? count : size, turn ? size : count))))
                return fail("calloc(%#zx, %#zx) %s", turn ? count : size, turn ? size : count, fault);
        }
    return pass();
}

Verdict realloc_fails(const Subject &s)
{
    for (std::size_t size : kImpossible) {
        errno = 0;
        if (const char *fault = failure_fault(launder(s.realloc(nullptr, size))))
            return wrong_at("realloc of NULL", size, fault);
        void *block = launder(s.malloc(100));
        errno = 0;
        void *moved = launder(s.realloc(block, size));
        if (const char *fault = failure_fault(moved)) return wrong_at("realloc", size, fault);
    }
    return pass();
}

Verdict realloc_too_large_keeps_block(const Subject &s)
{
    for (std::size_t size : {1ul, 24ul, 1000ul, 40'000ul, 300'000ul, 5'000'000ul})
        for (std::size_t too_large :
             {std::size_t{1} << 60, std::size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 4095, SIZE_MAX - 16, SIZE_MAX}) {
            void *block = launder(s.malloc(size));
            if (block == nullptr) return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
            fill(block, size, 5);
            if (void *moved = launder(s.realloc(block, too_large)); moved != nullptr)
                return fail("realloc(block of %zu, %#zx) gave a block: %p", size, too_large, moved);
            void *others[8];  // if the block had been freed, one of these would take its place
            for (void *&other : others) {
                other = launder(s.malloc(size));
                if (other == block)
                    return fail("realloc(block of %zu, %#zx) failed and freed the block", size, too_large);
                if (other != nullptr) memset(other, 0xee, size);
            }
            if (const std::size_t at = filled_until(block, size, 5); at != SIZE_MAX)
                return fail("realloc(block of %zu, %#zx) failed and changed the block from byte %zu", size, too_large,
                            at);
            for (void *other : others) s.free(other);
            s.free(block);
        }
    return pass();
}

Verdict reallocarray_fails(const Subject &s)
{
    if (s.reallocarray == nullptr) return not_provided("reallocarray");
    for (std::size_t size : kImpossible) {
        errno = 0;
        if (const char *fault = failure_fault(launder(s.reallocarray(nullptr, 1, size))))
            return wrong_at("reallocarray", size, fault);
    }
    return pass();
}

Verdict reallocarray_wraps(const Subject &s)
{
    if (s.reallocarray == nullptr) return not_provided("reallocarray");
    constexpr std::size_t pairs[][2] = {{SIZE_MAX / 2 + 1, 2},  // exactly 0
                                        {std::size_t{1} << 32, std::size_t{1} << 32},
                                        {SIZE_MAX / 4 + 2, 4},
                                        {SIZE_MAX, 2},
                                        {SIZE_MAX, SIZE_MAX}};
    for (const auto &[count, size] : pairs) {
        void *block = launder(s.malloc(100));
        fill(block, 100, 3);
        errno = 0;
        if (const char *fault = failure_fault(launder(s.reallocarray(block, count, size))))
            return fail("reallocarray(block, %#zx, %#zx) %s", count, size, fault);
        void *other = launder(s.malloc(100));
        if (other == block || !filled(block, 100, 3))
            return fail("reallocarray(block of 100, %#zx, %#zx) failed and %s the block %p", count, size,
                        other == block ? "freed" : "changed", block);
        s.free(other);
        s.free(block);
    }
    return pass();
}

Verdict reallocarray_null_and_zero(const Subject &s)
{
    if (s.reallocarray == nullptr) return not_provided("reallocarray");
    void *block = launder(s.reallocarray(nullptr, 10, 100));
    if (block == nullptr) return fail("reallocarray(NULL, 10, 100) gave NULL, errno %s", errno_text(errno));
    fill(block, 1000, 9);
    block = launder(s.reallocarray(block, 40, 100));
    if (block == nullptr) return fail("reallocarray(block of 1000, 40, 100) gave NULL, errno %s", errno_text(errno));
    if (const std::size_t at = filled_until(block, 1000, 9); at != SIZE_MAX)
        return fail("reallocarray(block of 1000, 40, 100) lost the content from byte %zu", at);
    block = launder(s.reallocarray(block, 0, 100));  // either NULL and freed, or a block of 0 bytes
    s.free(block);
    s.free(launder(s.reallocarray(nullptr, 0, 0)));
    s.free(launder(s.reallocarray(nullptr, 100, 0)));
    return pass();
}

// NetBSD's function: takes the address of the pointer and returns an errno value.
Verdict reallocarr_contract(const Subject &s)
{
    if (s.reallocarr == nullptr) return not_provided("reallocarr");
    void *block = nullptr;
    const int first = s.reallocarr(&block, 10, 100);
    if (first != 0 || launder(block) == nullptr)
        return fail("reallocarr(&null, 10, 100) returned %s and set the pointer to %p", errno_text(first), block);
    fill(block, 1000, 4);
    if (const int error = s.reallocarr(&block, 0, 100); error != 0)
        return fail("reallocarr(&block, 0, 100) returned %s", errno_text(error));
    if (launder(block) != nullptr) return fail("reallocarr(&block, 0, 100) left a pointer: %p", block);
    return pass();
}

Verdict realloc_above_2_gib(const Subject &s)
{
    constexpr std::size_t mib = 1 << 20, four_gib = std::size_t{1} << 32;
    unsigned char *block = bytes_of(launder(s.malloc(mib)));
    fill(block, mib, 8);
    for (std::size_t size : {four_gib / 2 + mib + 17, four_gib + mib + 17}) {
        block = bytes_of(launder(s.realloc(block, size)));
        if (block == nullptr) return skip("no %zu bytes of address space here", size);
        if (const std::size_t at = filled_until(block, mib, 8); at != SIZE_MAX)
            return fail("realloc to %zu bytes lost the content from byte %zu", size, at);
        block[size - 1] = 1;  // faults here if the size was cut to 32 bits
        if (s.usable_size != nullptr && s.usable_size(block) < size)
            return fail("realloc to %zu bytes gave %zu", size, s.usable_size(block));
    }
    block = bytes_of(launder(s.realloc(block, mib)));
    if (block == nullptr) return fail("realloc from above 4 GiB to 1 MiB gave NULL, errno %s", errno_text(errno));
    if (const std::size_t at = filled_until(block, mib, 8); at != SIZE_MAX)
        return fail("realloc from above 4 GiB to 1 MiB lost the content from byte %zu", at);
    s.free(block);
    return pass();
}

Verdict usable_size_of_null(const Subject &s)
{
    if (s.usable_size == nullptr) return not_provided("malloc_usable_size");
    const std::size_t size = launder(s.usable_size(launder(static_cast<void *>(nullptr))));
    return size == 0 ? pass() : fail("malloc_usable_size(NULL) is %zu", size);
}

Verdict null_and_zero(const Subject &s)
{
    s.free(launder(static_cast<void *>(nullptr)));
    void *blocks[64];
    for (void *&block : blocks) block = launder(s.malloc(0));
    for (int i = 0; i < 64; ++i)
        for (int j = 0; j < i; ++j)
            if (blocks[i] != nullptr && blocks[i] == blocks[j])
                return fail("malloc(0) gave one block twice: %p, at calls %d and %d", blocks[i], j + 1, i + 1);
    const bool null_of_0 = blocks[0] == nullptr;
    for (void *block : blocks) s.free(block);
    void *block = launder(s.realloc(nullptr, 100));
    if (block == nullptr) return fail("realloc(NULL, 100) gave NULL, errno %s", errno_text(errno));
    s.free(block);
    block = launder(s.realloc(nullptr, 0));
    if ((block == nullptr) != null_of_0)
        return fail("realloc(NULL, 0) gave %s, and malloc(0) %s", null_of_0 ? "a block" : "NULL",
                    null_of_0 ? "NULL" : "a block");
    s.free(block);
    s.free(launder(s.calloc(0, 100)));
    s.free(launder(s.calloc(SIZE_MAX, 0)));
    return pass();
}

// Whether realloc(p, 0) frees p is the malloc's choice; that a pointer which it returns is a block is not.
Verdict realloc_to_0(const Subject &s)
{
    constexpr int count = 32;
    for (std::size_t size : {8ul, 100ul, 3000ul, 200'000ul}) {
        void *const block = launder(s.realloc(launder(s.malloc(size)), 0));
        void *others[2 * count];
        for (int i = 0; i < 2 * count; ++i) others[i] = launder(s.malloc(i % 2 == 0 ? size : 1));
        for (void *other : others)
            if (block != nullptr && other == block)
                return fail("realloc(block of %zu, 0) gave %p, and malloc gave it again", size, block);
        s.free(block);
        for (void *other : others) s.free(other);
    }
    return pass();
}

// A program that replaces malloc must replace all of these (glibc manual, Replacing malloc). If it leaves one to libc,
// blocks of that function reach the program's own free.
Verdict all_entries_are_ours(const Subject &s)
{
    char missing[256] = "";
    for (const char *symbol : {"malloc", "free", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign",
                               "valloc", "pvalloc", "malloc_usable_size"})
        if (!subject_provides(s, symbol)) {
            strcat(missing, missing[0] == '\0' ? "" : ", ");
            strcat(missing, symbol);
        }
    return missing[0] == '\0' ? pass() : fail("left to libc, whose blocks its free does not know: %s", missing);
}

Verdict blocks_from_libc(const Subject &s)
{
    char *copied = strdup("a text");
    char *joined = nullptr;
    if (asprintf(&joined, "%s and %d", copied, 17) < 0) return fail("asprintf failed");
    char *memory = nullptr;
    size_t length = 0;
    FILE *stream = open_memstream(&memory, &length);
    if (stream == nullptr) return fail("open_memstream failed");
    for (int i = 0; i < 5000; ++i) fputs(joined, stream);
    fclose(stream);
    char *line = nullptr;
    size_t capacity = 0;
    FILE *reader = fmemopen(memory, length, "r");
    if (reader == nullptr || getline(&line, &capacity, reader) != static_cast<ssize_t>(length))
        return fail("getline of %zu bytes failed", length);
    fclose(reader);
    const struct {
        const char *function;
        void *block;
    } of_libc[] = {{"strdup", copied}, {"asprintf", joined}, {"open_memstream", memory}, {"getline", line}};
    for (const auto &[function, block] : of_libc) {
        if (s.usable_size != nullptr && s.usable_size(block) == 0)
            return fail("malloc_usable_size(%p) is 0, but libc's %s allocated the block for the program", block,
                        function);
        void *larger = launder(s.realloc(block, 50'000));
        if (larger == nullptr)
            return fail("realloc(%p of libc's %s, 50000) gave NULL, errno %s", block, function, errno_text(errno));
        s.free(larger);
    }
    return pass();
}

constexpr Check kApiChecks[] = {
    {"enomem-malloc",
     "malloc of an impossible size is NULL with ENOMEM",
     "POSIX.1-2024 malloc: on failure NULL and errno ENOMEM",
     "mimalloc#1135, snmalloc#461, BZ#23741",
     {1, 2, 12},
     malloc_fails},
    {"enomem-calloc",
     "calloc of an impossible size is NULL with ENOMEM",
     "POSIX.1-2024 calloc: on failure NULL and errno ENOMEM",
     "mimalloc#1135, snmalloc#461",
     {1, 2},
     calloc_fails},
    {"calloc-product-wraps",
     "calloc whose product wraps is NULL with ENOMEM",
     "POSIX.1-2024 calloc: on failure NULL and errno ENOMEM, also where nelem * elsize overflows",
     "mimalloc#1135",
     {1},
     calloc_product_wraps},
    {"enomem-realloc",
     "realloc to an impossible size is NULL with ENOMEM",
     "POSIX.1-2024 realloc: on failure NULL and errno ENOMEM",
     "mimalloc#1135, jemalloc#2620, BZ#27870",
     {1, 12},
     realloc_fails},
    {"realloc-too-large-keeps-block",
     "realloc that fails keeps the block and its content",
     "C23 7.24.3.7: if realloc fails, the old object is not deallocated and its value is unchanged",
     "BZ#27870",
     {12},
     realloc_too_large_keeps_block},
    {"enomem-reallocarray",
     "reallocarray of an impossible size is NULL with ENOMEM",
     "POSIX.1-2024 reallocarray: on failure NULL and errno ENOMEM",
     "mimalloc#1135",
     {1},
     reallocarray_fails},
    {"reallocarray-wraps",
     "reallocarray whose product wraps, to 0 too, fails and keeps the block",
     "POSIX.1-2024 reallocarray: NULL and errno ENOMEM where nelem * elsize overflows, and the block is unchanged",
     "mimalloc#574, snmalloc#863",
     {6},
     reallocarray_wraps},
    {"reallocarray-null-and-zero",
     "reallocarray takes NULL and 0",
     "POSIX.1-2024 reallocarray: a null pointer makes it malloc",
     "mimalloc#574, mimalloc#1271",
     {6},
     reallocarray_null_and_zero},
    {"reallocarr",
     "reallocarr takes NULL and 0",
     "NetBSD reallocarr(3): 0 or an error number; a zero number or size frees the block and stores NULL",
     "mimalloc#1271",
     {6},
     reallocarr_contract},
    {"realloc-above-2-gib",
     "realloc beyond 2 and 4 GiB and back keeps size and content",
     "C23 7.24.3.7: the content is kept up to the lesser of the old and new sizes",
     "gperftools#470, gperftools#497",
     {9},
     realloc_above_2_gib},
    {"usable-size-of-null",
     "malloc_usable_size(NULL) is 0",
     "malloc_usable_size(3): of NULL it is 0",
     "BZ#28506",
     {13},
     usable_size_of_null},
    {"null-and-zero",
     "free(NULL), realloc(NULL), and sizes of 0 are fine; malloc(0) blocks are distinct",
     "C23 7.24.3, 7.24.3.3, 7.24.3.7: free(NULL) does nothing, realloc(NULL, n) is malloc(n), blocks are disjoint",
     "snmalloc#863, mimalloc#574, mimalloc#622",
     {6},
     null_and_zero},
    {"realloc-to-0",
     "a pointer that realloc(p, 0) returns is a block that malloc gives to nobody else",
     "POSIX.1-2024 realloc: of size 0, a null pointer, or a pointer to allocated space",
     "jemalloc 5.3.0",
     {6},
     realloc_to_0},
    {"all-entries-are-ours",
     "no entry point of malloc is left to libc",
     "glibc manual, Replacing malloc: a replacement defines aligned_alloc, malloc_usable_size, memalign, posix_memalign, pvalloc and valloc too",
     "gperftools#909, jemalloc 5.3.0 (pvalloc)",
     {7, 8},
     all_entries_are_ours},
    {"blocks-from-libc",
     "blocks that libc allocates for the program can be resized and freed",
     "C23 7.24.3.3: free takes what strdup, getline and others say that it takes",
     "gperftools#909, mimalloc#244",
     {8, 28},
     blocks_from_libc},
};

}  // namespace

std::span<const Check> api_checks()
{
    return kApiChecks;
}

}  // namespace stress::conform
