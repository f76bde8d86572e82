// The entry points that take an alignment, plus valloc and pvalloc.
#include <unistd.h>

#include <cerrno>

#include "conform/check.h"
#include "conform/limits.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

constexpr std::size_t kAlignMax = 8 << 20;

// What is wrong with an aligned block; null if nothing is.
const char *block_fault(const Subject &s, void *block, std::size_t align, std::size_t size)
{
    if (block == nullptr) return wrong_text("is NULL, errno %s", errno_text(errno));
    if (!is_aligned(block, align)) return wrong_text("is not aligned: it is %p", block);
    if (s.usable_size != nullptr && s.usable_size(block) < size)
        return wrong_text("is %p with a malloc_usable_size of %zu, below what was asked for", block,
                          s.usable_size(block));
    mark(block, size, 1);
    return nullptr;
}

// Calls every aligned entry that exists; the verdict is on the first that is wrong.
Verdict try_all(const Subject &s, std::size_t align, std::size_t size)
{
    const char *fault = nullptr;
    if (s.memalign != nullptr) {
        void *blocks[4];  // several, since the first block of a slab is aligned by chance
        for (void *&block : blocks) {
            block = launder(s.memalign(align, size));
            if ((fault = block_fault(s, block, align, size))) return fail("memalign(%zu, %zu) %s", align, size, fault);
        }
        for (void *block : blocks) s.free(block);
    }
    if (s.aligned_alloc != nullptr) {
        // C11 demands a multiple of the alignment, and a malloc may refuse other sizes, as Scudo does.
        const std::size_t multiple = (size + align - 1) / align * align;
        void *blocks[4];
        for (void *&block : blocks) {
            block = launder(s.aligned_alloc(align, multiple));
            if ((fault = block_fault(s, block, align, multiple)))
                return fail("aligned_alloc(%zu, %zu) %s", align, multiple, fault);
        }
        for (void *block : blocks) s.free(block);
    }
    if (s.posix_memalign != nullptr && align >= sizeof(void *)) {
        void *blocks[4];
        for (void *&block : blocks) {
            block = nullptr;
            if (const int error = s.posix_memalign(&block, align, size); error != 0)
                return fail("posix_memalign(&p, %zu, %zu) returned %s", align, size, errno_text(error));
            if ((fault = block_fault(s, launder(block), align, size)))
                return fail("the block of posix_memalign(&p, %zu, %zu) %s", align, size, fault);
        }
        for (void *block : blocks) s.free(block);
    }
    return pass();
}

Verdict size_equals_alignment(const Subject &s)
{
    for (std::size_t align = sizeof(void *); align <= kAlignMax; align *= 2) {
        s.free(launder(s.malloc(align)));  // blocks of that class in the cache need not be aligned
        if (const Verdict verdict = try_all(s, align, align); verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

Verdict alignment_sweep(const Subject &s)
{
    for (std::size_t align = 1; align <= kAlignMax; align *= 2)
        for (std::size_t size : {1ul, 8ul, 24ul, 100ul, 1000ul, 4096ul, 5000ul, 40'000ul, 1ul << 20, (2ul << 20) + 1})
            if (const Verdict verdict = try_all(s, align, size); verdict.status != Status::Pass) return verdict;
    return pass();
}

// Blocks without an alignment are freed, some with room for one; then blocks of the size with it. What was wrong, or null.
const char *aligned_after(const Subject &s, std::size_t align, std::size_t size, std::size_t more)
{
    void *blocks[3];
    for (void *&block : blocks)
        if ((block = launder(s.malloc(size + more))) != nullptr) mark(block, size + more, 2);
    for (void *block : blocks) s.free(block);
    for (void *&block : blocks) {
        if ((block = launder(s.memalign(align, size))) == nullptr) continue; // another check asks for it
        if (const char *fault = block_fault(s, block, align, size))
            return wrong_text("memalign(%zu, %zu), after blocks of %zu bytes were freed, %s", align, size, size + more,
                              fault);
    }
    for (void *block : blocks) {
        if (block != nullptr && !marked(block, size, 1))
            return wrong_text("the block %p of memalign(%zu, %zu) changed while it was live", block, align, size);
        s.free(block);
    }
    return nullptr;
}

// Each size in a child of its own, since other sizes may fill a small cache.
Verdict aligned_again(const Subject &s)
{
    if (s.memalign == nullptr) return not_provided("memalign");
    for (std::size_t size : {3000ul, 40'000ul, 300'000ul, 1ul << 20, 5ul << 20, 40ul << 20}) {
        const char *wrong = in_fork([&]() -> const char * {
            for (std::size_t align = 64; align <= kAlignMax; align *= 4)
                for (std::size_t more : {0ul, align})
                    if (const char *fault = aligned_after(s, align, size, more)) return fault;
            return nullptr;
        });
        if (wrong != nullptr)
            return fail("a child that frees blocks of %zu bytes and gets aligned ones %s", size, wrong);
    }
    return pass();
}

// Blocks of mostly address space. A malloc may have none so large; what it gives is right and can be freed.
Verdict huge_alignment(const Subject &s)
{
    if (s.memalign == nullptr) return not_provided("memalign");
    for (std::size_t align = kAlignMax; align <= std::size_t{1} << 45; align *= 2) {
        void *block = launder(s.memalign(align, 4096));
        if (block == nullptr) continue;
        if (const char *fault = block_fault(s, block, align, 4096)) return fail("memalign(%zu, 4096) %s", align, fault);
        if (!marked(block, 4096, 1))
            return fail("the block %p of memalign(%zu, 4096) changed while it was live", block, align);
        s.free(block);
    }
    return pass();
}

Verdict malloc_alignment(const Subject &s)
{
    for (std::size_t size : all_sizes()) {
        const std::size_t align = size >= 16 ? 16 : size >= 8 ? 8 : 1;
        void *blocks[] = {launder(s.malloc(size)), launder(s.calloc(1, size)), launder(s.realloc(nullptr, size)),
                          launder(s.malloc(size))};
        constexpr const char *calls[] = {"malloc", "calloc(1, ...)", "realloc(NULL, ...)", "the second malloc"};
        for (std::size_t i = 0; i < 4; ++i)
            if (blocks[i] == nullptr || !is_aligned(blocks[i], align))
                return fail("%s of %zu bytes gave %p, which is not aligned to %zu", calls[i], size, blocks[i], align);
        for (void *block : blocks) s.free(block);
    }
    return pass();
}

Verdict posix_memalign_keeps_pointer(const Subject &s)
{
    if (s.posix_memalign == nullptr) return not_provided("posix_memalign");
    int marker = 0;
    for (std::size_t align : {0ul, 3ul, 4ul, 24ul, 100ul, 4097ul}) {
        void *out = &marker;
        if (const int error = s.posix_memalign(&out, align, 100); error != EINVAL)
            return fail("posix_memalign(&p, %zu, 100) returned %s, not EINVAL", align, errno_text(error));
        if (launder(out) != &marker) return fail("posix_memalign(&p, %zu, 100) failed and changed p to %p", align, out);
    }
    for (std::size_t size : kImpossible) {
        void *out = &marker;
        if (const int error = s.posix_memalign(&out, 64, size); error != ENOMEM)
            return fail("posix_memalign(&p, 64, %#zx) returned %s, not ENOMEM", size, errno_text(error));
        if (launder(out) != &marker) return fail("posix_memalign(&p, 64, %#zx) failed and changed p to %p", size, out);
    }
    return pass();
}

Verdict posix_memalign_size_0(const Subject &s)
{
    if (s.posix_memalign == nullptr) return not_provided("posix_memalign");
    for (std::size_t align = sizeof(void *); align <= kAlignMax; align *= 4) {
        void *out = &out;
        if (const int error = s.posix_memalign(&out, align, 0); error != 0)
            return fail("posix_memalign(&p, %zu, 0) returned %s", align, errno_text(error));
        if (launder(out) == &out) return fail("posix_memalign(&p, %zu, 0) returned 0 and did not set p", align);
        if (!is_aligned(out, align))
            return fail("posix_memalign(&p, %zu, 0) gave %p, which is not aligned", align, out);
        s.free(out);
    }
    return pass();
}

Verdict realloc_of_aligned(const Subject &s)
{
    if (s.memalign == nullptr && s.aligned_alloc == nullptr) return not_provided("memalign and aligned_alloc");
    for (std::size_t align : {32ul, 64ul, 256ul, 4096ul, 8192ul, 65536ul, 2ul << 20})
        for (std::size_t size : {1ul, 100ul, 5000ul, 70'000ul, 3ul << 20})
            for (std::size_t next : {size * 3, size / 2 + 1, size + 4096}) {
                void *block = launder(s.memalign != nullptr ? s.memalign(align, size) : s.aligned_alloc(align, size));
                if (block == nullptr)
                    return fail("%s(%zu, %zu) gave NULL, errno %s",
                                s.memalign != nullptr ? "memalign" : "aligned_alloc", align, size, errno_text(errno));
                fill(block, size, 6);
                void *neighbour = launder(s.malloc(size));
                fill(neighbour, size, 7);
                const std::size_t kept = size < next ? size : next;
                void *const before = block;
                block = launder(s.realloc(block, next));
                if (block == nullptr)
                    return fail("realloc(%p of %zu bytes aligned to %zu, %zu) gave NULL, errno %s", before, size, align,
                                next, errno_text(errno));
                if (const std::size_t at = filled_until(block, kept, 6); at != SIZE_MAX)
                    return fail(
                        "realloc(%p of %zu bytes aligned to %zu, %zu) gave %p and lost the content from byte %zu",
                        before, size, align, next, block, at);
                if (!is_aligned(block, next >= 16 ? 16 : 1))
                    return fail("realloc(%p of %zu bytes aligned to %zu, %zu) gave %p, which is not aligned to 16",
                                before, size, align, next, block);
                fill(block, next, 6);
                if (!filled(neighbour, size, 7))
                    return fail("realloc(%p of %zu bytes aligned to %zu, %zu) gave %p, which runs into the block %p",
                                before, size, align, next, block, neighbour);
                s.free(neighbour);
                s.free(block);
            }
    return pass();
}

Verdict aligned_overflow(const Subject &s)
{
    for (std::size_t align = 16; align <= kAlignMax; align *= 4)
        for (std::size_t size : kImpossible)
            for (auto *entry : {s.memalign, s.aligned_alloc}) {
                if (entry == nullptr) continue;
                if (void *block = launder(entry(align, size)); block != nullptr)
                    return fail("%s(%zu, %#zx) gave a block: %p", entry == s.memalign ? "memalign" : "aligned_alloc",
                                align, size, block);
            }
    return pass();
}

Verdict alignment_too_large(const Subject &s)
{
    for (auto *entry : {s.memalign, s.aligned_alloc}) {
        if (entry == nullptr) continue;
        for (std::size_t align : {SIZE_MAX / 2 + 1, SIZE_MAX / 4 + 1, std::size_t{1} << 60})
            for (std::size_t size : {std::size_t{1}, std::size_t{4096}, align - 1, align, SIZE_MAX - align}) {
                void *block = launder(entry(align, size));
                if (block != nullptr)
                    return fail("%s(%#zx, %#zx) gave a block: %p", entry == s.memalign ? "memalign" : "aligned_alloc",
                                align, size, block);
            }
    }
    return pass();
}

Verdict enomem_aligned(const Subject &s)
{
    for (auto *entry : {s.memalign, s.aligned_alloc}) {
        if (entry == nullptr) continue;
        for (std::size_t size : kImpossible) {
            // A multiple of the alignment, so that EINVAL would be wrong.
            const std::size_t whole = size & ~std::size_t{63};
            errno = 0;
            void *block = launder(entry(64, whole));
            const int error = errno;
            if (block != nullptr || error != ENOMEM)
                return fail("%s(64, %#zx) gave %p and errno %s, not NULL and ENOMEM",
                            entry == s.memalign ? "memalign" : "aligned_alloc", whole, block, errno_text(error));
        }
    }
    return s.memalign == nullptr && s.aligned_alloc == nullptr ? not_provided("memalign and aligned_alloc") : pass();
}

Verdict valloc_and_pvalloc_fail(const Subject &s)
{
    if (s.valloc == nullptr && s.pvalloc == nullptr) return not_provided("valloc and pvalloc");
    Verdict verdict = pass();
    for (auto *entry : {s.valloc, s.pvalloc}) {
        if (entry == nullptr) continue;
        for (std::size_t size : kImpossible) {
            errno = 0;
            void *block = launder(entry(size));
            const int error = errno;
            const char *name = entry == s.valloc ? "valloc" : "pvalloc";
            // The worse of the two is what is said: a block that is too small.
            if (block != nullptr)
                return fail("%s(%#zx) gave a block: %p, of %zu bytes", name, size, block,
                            s.usable_size == nullptr ? 0 : s.usable_size(block));
            if (error != ENOMEM && verdict.status == Status::Pass)
                verdict = fail("%s(%#zx) failed with errno %s, not ENOMEM", name, size, errno_text(error));
        }
    }
    return verdict;
}

Verdict pvalloc_usable(const Subject &s)
{
    if (s.pvalloc == nullptr) return not_provided("pvalloc");
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t size : {std::size_t{1}, page, page + 1, 10 * page - 1}) {
        void *block = launder(s.pvalloc(size));
        const std::size_t whole = (size + page - 1) / page * page;
        if (block == nullptr || !is_aligned(block, page))
            return fail("pvalloc(%zu) gave %p, which is not on a page of %zu bytes", size, block, page);
        if (s.usable_size != nullptr && s.usable_size(block) < whole)
            return fail("malloc_usable_size(pvalloc(%zu)) is %zu, below %zu", size, s.usable_size(block), whole);
        fill(block, whole, 1);
        s.free(block);
    }
    return pass();
}

constexpr Check kAlignedChecks[] = {
    {"malloc-alignment",
     "blocks of 16 bytes and more are aligned to 16, of 8 to 8",
     "C23 7.24.3: a block is suitably aligned for any object of fundamental alignment that fits in it",
     "mimalloc#700",
     {3},
     malloc_alignment},
    {"size-equals-alignment",
     "an aligned block as large as its alignment is aligned",
     "posix_memalign(3): the address is a multiple of the alignment",
     "mimalloc#700, mimalloc#602",
     {3},
     size_equals_alignment},
    {"alignment-sweep",
     "alignments from 1 to 8 MiB hold for all sizes",
     "posix_memalign(3): the address is a multiple of the alignment, any power of two",
     "mimalloc#577, mimalloc#602",
     {3},
     alignment_sweep},
    {"alignment-of-memory-again",
     "memory of freed blocks that is used again for an aligned one has the alignment",
     "posix_memalign(3): the address is a multiple of the alignment, any power of two",
     "mimalloc#602",
     {3},
     aligned_again},
    {"huge-alignment",
     "a block whose alignment is terabytes can be used and freed, where there is one",
     "posix_memalign(3): a block that is given is a multiple of the alignment, and can be used",
     "an early libhakmem",
     {3},
     huge_alignment},
    {"posix-memalign-keeps-pointer",
     "posix_memalign that fails returns EINVAL or ENOMEM and leaves *memptr",
     "POSIX.1-2024 posix_memalign: EINVAL or ENOMEM; posix_memalign(3): *memptr is then unchanged",
     "mimalloc#27",
     {4},
     posix_memalign_keeps_pointer},
    {"posix-memalign-size-0",
     "posix_memalign of size 0 works at each alignment",
     "POSIX.1-2024 posix_memalign: of size 0, NULL, or as of another size: aligned on the alignment",
     "jemalloc 5.2.1",
     {7},
     posix_memalign_size_0},
    {"realloc-of-aligned",
     "realloc of an aligned block keeps the content and its neighbours",
     "C23 7.24.3.7: realloc takes blocks of aligned_alloc, and keeps their content",
     "mimalloc#603, gperftools#467, hardened_malloc 3bee8d3",
     {5},
     realloc_of_aligned},
    {"enomem-aligned",
     "memalign and aligned_alloc of an impossible size are NULL with ENOMEM",
     "posix_memalign(3): aligned_alloc and memalign return NULL and set errno to ENOMEM if they fail",
     "mimalloc#1135",
     {1},
     enomem_aligned},
    {"aligned-overflow",
     "size plus alignment never wraps",
     "C23 7.24.3: a block has at least the size that was asked for, or there is none",
     "BZ#22343, CVE-2018-6485, CVE-2026-0861",
     {12},
     aligned_overflow},
    {"alignment-too-large",
     "an alignment that no address space holds is refused",
     "posix_memalign(3): the address is a multiple of the alignment, or the call fails",
     "BZ#22343, CVE-2026-0861",
     {12},
     alignment_too_large},
    {"valloc-pvalloc-fail",
     "valloc and pvalloc of an impossible size are NULL with ENOMEM",
     "posix_memalign(3): valloc and pvalloc return NULL and set errno to ENOMEM if they fail; pvalloc rounds the size up",
     "CVE-2013-4332, mimalloc#1135",
     {1, 7},
     valloc_and_pvalloc_fail},
    {"pvalloc-usable",
     "a pvalloc block is usable to the end of its last page",
     "posix_memalign(3): pvalloc rounds the size up to the next multiple of the page size",
     "jemalloc 5.3.0",
     {7},
     pvalloc_usable},
};

} // namespace

std::span<const Check> aligned_checks()
{
    return kAlignedChecks;
}

} // namespace stress::conform
