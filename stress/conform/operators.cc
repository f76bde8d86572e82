// operator new and delete, if the library has its own.
#include <new>

#include "conform/check.h"
#include "conform/limits.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

constexpr std::size_t kTooLarge = static_cast<std::size_t>(PTRDIFF_MAX) - 4096;

bool has_plain(const Subject &s)
{
    return s.new_ != nullptr && s.new_array != nullptr && s.new_nothrow != nullptr && s.new_array_nothrow != nullptr &&
           s.delete_ != nullptr && s.delete_array != nullptr;
}

bool has_aligned(const Subject &s)
{
    return s.new_aligned != nullptr && s.new_array_aligned != nullptr && s.delete_aligned != nullptr &&
           s.delete_array_aligned != nullptr;
}

Verdict no_plain()
{
    return not_provided("operator new and delete");
}

Verdict no_aligned()
{
    return not_provided("aligned operator new and delete");
}

void sized_delete(const Subject &s, void *block, std::size_t size, std::size_t align)
{
    if (s.delete_sized_aligned != nullptr) s.delete_sized_aligned(block, size, align);
    else s.delete_aligned(block, align);
}

Verdict new_and_delete(const Subject &s)
{
    if (!has_plain(s)) return no_plain();
    for (std::size_t size : all_sizes()) {
        void *blocks[] = {launder(s.new_(size)), launder(s.new_array(size)), launder(s.new_(size)),
                          launder(s.new_array(size)), launder(s.new_nothrow(size, &std::nothrow))};
        for (void *block : blocks) {
            if (block == nullptr || !is_aligned(block, size >= 16 ? 16 : 1))
                return fail("operator new(%zu), new[] or new(nothrow) gave %p, which is NULL or not aligned to %d",
                            size, block, size >= 16 ? 16 : 1);
            mark(block, size, 1);
        }
        s.delete_(blocks[0]);
        s.delete_array(blocks[1]);
        if (s.delete_sized != nullptr) s.delete_sized(blocks[2], size);
        if (s.delete_array_sized != nullptr) s.delete_array_sized(blocks[3], size);
        s.delete_(blocks[4]);
    }
    s.delete_(nullptr);
    s.delete_array(nullptr);
    void *one = launder(s.new_(0)), *other = launder(s.new_(0));
    if (one == nullptr || one == other) return fail("operator new(0) twice gave %p and %p", one, other);
    s.delete_(one);
    s.delete_(other);
    return pass();
}

Verdict aligned_new(const Subject &s)
{
    if (!has_aligned(s)) return no_aligned();
    for (std::size_t align = 8; align <= 4 << 20; align *= 2)
        for (std::size_t size : {1ul, align / 2 + 1, align, align + 1, 3 * align - 1, 100ul}) {
            void *one = launder(s.new_aligned(size, align)), *array = launder(s.new_array_aligned(size, align));
            if (one == nullptr || array == nullptr || !is_aligned(one, align) || !is_aligned(array, align))
                return fail("operator new(%zu, align %zu) gave %p, new[] %p: not aligned", size, align, one, array);
            mark(one, size, 1);
            mark(array, size, 2);
            s.delete_aligned(one, align);
            s.delete_array_aligned(array, align);
            if (s.new_aligned_nothrow == nullptr) continue;
            one = launder(s.new_aligned_nothrow(size, align, &std::nothrow));
            if (one == nullptr || !is_aligned(one, align))
                return fail("operator new(%zu, align %zu, nothrow) gave %p, which is not aligned", size, align, one);
            sized_delete(s, one, size, align);
        }
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("after aligned new and sized aligned delete, %s", wrong);
}

Verdict aligned_new_of_0(const Subject &s)
{
    if (!has_aligned(s)) return no_aligned();
    for (std::size_t align : {1ul, 2ul, 4ul, 8ul, 32ul, 64ul, 4096ul}) {
        void *one = launder(s.new_aligned(0, align)), *other = launder(s.new_aligned(0, align));
        if (one == nullptr || other == nullptr || one == other || !is_aligned(one, align))
            return fail("operator new(0, align %zu) twice gave %p and %p: one block, NULL, or not aligned", align, one,
                        other);
        sized_delete(s, one, 0, align);
        s.delete_aligned(other, align);
    }
    return pass();
}

Verdict alignment_below_pointer(const Subject &s)
{
    if (!has_aligned(s)) return no_aligned();
    for (std::size_t align : {1ul, 2ul, 4ul})
        for (std::size_t size : {1ul, 3ul, 7ul, 100ul, 5000ul}) {
            void *block = launder(s.new_aligned(size, align));
            if (block == nullptr || !is_aligned(block, align))
                return fail("operator new(%zu, align %zu) gave %p, which is NULL or not aligned", size, align, block);
            mark(block, size, 1);
            sized_delete(s, block, size, align);
        }
    return pass();
}

enum class Ended { Returned, BadAlloc, Other };

template <typename Call> Ended ending_of(Call &&call)
{
    try {
        call();
        return Ended::Returned;
    } catch (const std::bad_alloc &) {
        return Ended::BadAlloc;
    } catch (...) {
        return Ended::Other;
    }
}

Verdict new_throws(const Subject &s)
{
    if (!has_plain(s)) return no_plain();
    for (std::size_t size : {kTooLarge, std::size_t{1} << 60, SIZE_MAX - 16, SIZE_MAX}) {
        if (ending_of([&] { launder(s.new_(size)); }) != Ended::BadAlloc)
            return fail("operator new(%#zx) does not throw bad_alloc", size);
        if (ending_of([&] { launder(s.new_array(size)); }) != Ended::BadAlloc)
            return fail("operator new[](%#zx) does not throw bad_alloc", size);
        if (s.new_aligned != nullptr && ending_of([&] { launder(s.new_aligned(size, 64)); }) != Ended::BadAlloc)
            return fail("operator new(%#zx, align 64) does not throw bad_alloc", size);
    }
    return pass();
}

Verdict nothrow_new_is_null(const Subject &s)
{
    if (!has_plain(s)) return no_plain();
    for (std::size_t size : {kTooLarge, std::size_t{1} << 60, SIZE_MAX - 16, SIZE_MAX}) {
        void *one = nullptr, *array = nullptr, *aligned = nullptr;
        const Ended ended = ending_of([&] {
            one = launder(s.new_nothrow(size, &std::nothrow));
            array = launder(s.new_array_nothrow(size, &std::nothrow));
            if (s.new_aligned_nothrow != nullptr) aligned = launder(s.new_aligned_nothrow(size, 64, &std::nothrow));
        });
        if (ended != Ended::Returned) return fail("operator new(%#zx, nothrow) throws", size);
        if (one != nullptr || array != nullptr || aligned != nullptr)
            return fail("operator new(%#zx, nothrow) gave a block: %p, new[] %p, aligned to 64 %p", size, one, array,
                        aligned);
    }
    return pass();
}

int handler_calls;

Verdict new_handler_loops(const Subject &s)
{
    if (!has_plain(s)) return no_plain();
    struct GaveUp {};
    std::set_new_handler([] {
        if (++handler_calls == 3) throw GaveUp{};
    });
    for (int form = 0; form < (s.new_aligned != nullptr ? 3 : 2); ++form) {
        handler_calls = 0;
        const Ended ended = ending_of([&] {
            launder(form == 0 ? s.new_(kTooLarge) : form == 1 ? s.new_array(kTooLarge) : s.new_aligned(kTooLarge, 64));
        });
        if (ended != Ended::Other || handler_calls != 3)
            return fail("operator %s: the new_handler was called %d times, not until it threw at the third",
                        form == 0   ? "new"
                        : form == 1 ? "new[]"
                                    : "new(align 64)",
                        handler_calls);
    }
    std::set_new_handler([] {
        ++handler_calls;
        std::set_new_handler(nullptr);
    });
    handler_calls = 0;
    if (ending_of([&] { launder(s.new_(kTooLarge)); }) != Ended::BadAlloc || handler_calls != 1)
        return fail("a new_handler that removes itself was called %d times, or bad_alloc did not follow",
                    handler_calls);
    return pass();
}

constexpr Check kOperatorChecks[] = {
    {"new-and-delete",
     "operator new and new[] with every form of delete",
     "C++20 [new.delete.single], [new.delete.array]: delete takes what the matching new gave",
     "mimalloc#745",
     {15},
     new_and_delete},
    {"aligned-new",
     "aligned operator new at sizes below, at and above the alignment, with sized delete",
     "C++20 [basic.stc.dynamic.allocation]: aligned as asked; [new.delete.single]: sized delete takes the size that was asked for",
     "snmalloc#597, snmalloc#671, mimalloc#754",
     {10, 14},
     aligned_new},
    {"aligned-new-of-0",
     "operator new(0, align) gives distinct aligned blocks",
     "C++20 [basic.stc.dynamic.allocation]: of size 0 too, non-null, distinct and aligned as asked",
     "snmalloc#658",
     {14},
     aligned_new_of_0},
    {"alignment-below-pointer",
     "operator new takes alignments of 1, 2 and 4",
     "C++20 [basic.align]: every power of two up to the largest fundamental alignment is an alignment",
     "snmalloc#597, snmalloc#671",
     {14},
     alignment_below_pointer},
    {"new-throws-bad-alloc",
     "operator new that fails throws bad_alloc",
     "C++20 [new.delete.single]: operator new that fails throws bad_alloc",
     "rpmalloc (returned NULL), mimalloc (built as C: aborts)",
     {15},
     new_throws},
    {"nothrow-new-is-null",
     "operator new(nothrow) that fails is NULL",
     "C++20 [new.delete.single]: operator new(nothrow) that fails returns NULL",
     "mimalloc#745",
     {15},
     nothrow_new_is_null},
    {"new-handler-loops",
     "operator new calls the new_handler until it gives memory, throws or is gone",
     "C++20 [new.delete.single]: operator new calls the new_handler until it gives memory, throws or there is none",
     "rpmalloc, mimalloc (built as C)",
     {15},
     new_handler_loops},
};

}  // namespace

std::span<const Check> operator_checks()
{
    return kOperatorChecks;
}

}  // namespace stress::conform
