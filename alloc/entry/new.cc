// new.cc: every form of operator new and delete ([new.delete]). They need the C++ runtime only when memory runs out,
// and then look it up by name, since the shared library must load into C programs too.
//
// When memory runs out, new calls the new_handler again and again until memory is found or the handler throws. If there
// is no handler, new throws std::bad_alloc. The nothrow forms return NULL instead of throwing, also when the handler
// throws. Other errors as in hak_aligned_alloc. Any thread.
//
// A program may replace some of the operators, often only new(size) and delete(pointer). The standard defines each other form by
// one of these, so the forms here call what the program has.

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/policy.h"
#include "hakmem/hakmem.h"

extern "C" {
#include "debug/frame.h"
}

namespace std {

enum class align_val_t : size_t {};
struct nothrow_t;
using new_handler = void (*)();

HAK_CXX_RUNTIME new_handler get_new_handler() noexcept;
[[noreturn]] HAK_CXX_RUNTIME void __throw_bad_alloc(); // both libstdc++ and libc++ export it

} // namespace std

namespace {

using GetHandler = std::new_handler (*)();
using ThrowBadAlloc = void (*)();

// Finds a symbol of a C++ runtime that was loaded by dlopen, which weak references do not see.
// unreached: the C++ runtime has come by dlopen, and operator new is out of memory
void *runtime_symbol(const char *name)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
    for (const char *library : libraries) {
        void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
        if (handle == nullptr) continue;
        void *symbol = dlsym(handle, name);
        dlclose(handle);
        if (symbol != nullptr) return symbol;
    }
    return nullptr;
}

std::new_handler handler()
{
    GetHandler get = &std::get_new_handler;
    if (get == nullptr) get = reinterpret_cast<GetHandler>(runtime_symbol("_ZSt15get_new_handlerv"));
    return get != nullptr ? get() : nullptr;
}

[[noreturn]] void throw_bad_alloc()
{
    ThrowBadAlloc thrower = &std::__throw_bad_alloc;
    if (thrower == nullptr) thrower = reinterpret_cast<ThrowBadAlloc>(runtime_symbol("_ZSt17__throw_bad_allocv"));
    if (thrower != nullptr) thrower();
    abort(); // no C++ runtime: nobody could catch it
}

// align_bytes is 0 if the call names no alignment. Under VALIDATE the delete must be of the same family.
void *allocate(size_t size_bytes, size_t align_bytes, frame_family family)
{
    if (VALIDATE && frames_on()) return frame_alloc(family, align_bytes, size_bytes, false);
    return align_bytes == 0 ? hak_malloc(size_bytes) : hak_aligned_alloc(align_bytes, size_bytes);
}

[[gnu::noinline, gnu::cold]] void *retry(size_t size_bytes, size_t align_bytes, frame_family family)
{
    for (;;) {
        std::new_handler call = handler();
        if (call == nullptr) throw_bad_alloc();
        call();
        if (void *block = allocate(size_bytes, align_bytes, family)) return block;
    }
}

[[gnu::noinline, gnu::cold]] void *retry_nothrow(size_t size_bytes, size_t align_bytes, frame_family family) noexcept
{
    try {
        return handler() != nullptr ? retry(size_bytes, align_bytes, family) : nullptr;
    } catch (...) {
        return nullptr;
    }
}

inline void *throwing(size_t size_bytes, size_t align_bytes, frame_family family)
{
    void *block = allocate(size_bytes, align_bytes, family);
    return HAK_LIKELY(block != nullptr) ? block : retry(size_bytes, align_bytes, family);
}

inline void *not_throwing(size_t size_bytes, size_t align_bytes, frame_family family) noexcept
{
    void *block = allocate(size_bytes, align_bytes, family);
    return HAK_LIKELY(block != nullptr) ? block : retry_nothrow(size_bytes, align_bytes, family);
}

inline void release(void *p, frame_family family) noexcept
{
    if (VALIDATE && frames_on()) {
        frame_free(p, {family, false, false, 0, 0});
    } else {
        hak_free(p);
    }
}

inline void release_aligned(void *p, size_t align_bytes, frame_family family) noexcept
{
    if (VALIDATE && frames_on()) {
        frame_free(p, {family, false, true, 0, align_bytes});
    } else {
        hak_free(p);
    }
}

inline void release_sized(void *p, size_t size_bytes, frame_family family) noexcept
{
    if (VALIDATE && frames_on()) {
        frame_free(p, {family, true, false, size_bytes, 0});
    } else {
        hak_free_sized(p, size_bytes);
    }
}

inline void release_both(void *p, size_t size_bytes, size_t align_bytes, frame_family family) noexcept
{
    if (VALIDATE && frames_on()) {
        frame_free(p, {family, true, true, size_bytes, align_bytes});
    } else {
        hak_free_aligned_sized(p, align_bytes, size_bytes);
    }
}

} // namespace

using Align = std::align_val_t;
using Nothrow = const std::nothrow_t &;

static constexpr size_t bytes(Align a)
{
    return static_cast<size_t>(a);
}

#define OVERRIDE __attribute__((visibility("default")))

OVERRIDE void *operator new(size_t n, Nothrow) noexcept;
OVERRIDE void *operator new(size_t n, Align a, Nothrow) noexcept;
OVERRIDE void *operator new[](size_t n, Nothrow) noexcept;
OVERRIDE void *operator new[](size_t n, Align a, Nothrow) noexcept;
OVERRIDE void operator delete(void *p, Nothrow) noexcept;
OVERRIDE void operator delete(void *p, Align a, Nothrow) noexcept;
OVERRIDE void operator delete[](void *p, Nothrow) noexcept;
OVERRIDE void operator delete[](void *p, Align a, Nothrow) noexcept;

// --- which operators the program replaces -------------------------------------------------------------------------------

// The eight operators by which the standard defines the others, as they are below: a label, which no other definition hides.
#define OWN(label, symbol)               \
    __asm__(".set " #label ", " symbol); \
    extern "C" [[gnu::visibility("hidden")]] const char label[]
OWN(label_new, "_Znwm");
OWN(label_new_aligned, "_ZnwmSt11align_val_t");
OWN(label_new_array, "_Znam");
OWN(label_new_array_aligned, "_ZnamSt11align_val_t");
OWN(label_delete, "_ZdlPv");
OWN(label_delete_aligned, "_ZdlPvSt11align_val_t");
OWN(label_delete_array, "_ZdaPv");
OWN(label_delete_array_aligned, "_ZdaPvSt11align_val_t");
// The other twelve.
OWN(label_new_nothrow, "_ZnwmRKSt9nothrow_t");
OWN(label_new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t");
OWN(label_new_array_nothrow, "_ZnamRKSt9nothrow_t");
OWN(label_new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t");
OWN(label_delete_nothrow, "_ZdlPvRKSt9nothrow_t");
OWN(label_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t");
OWN(label_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t");
OWN(label_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t");
OWN(label_delete_sized, "_ZdlPvm");
OWN(label_delete_sized_aligned, "_ZdlPvmSt11align_val_t");
OWN(label_delete_array_sized, "_ZdaPvm");
OWN(label_delete_array_sized_aligned, "_ZdaPvmSt11align_val_t");
#undef OWN

namespace {

using New = void *(size_t);
using NewAligned = void *(size_t, Align);
using Delete = void(void *);
using DeleteAligned = void(void *, Align);
using NewNothrow = void *(size_t, Nothrow);
using NewAlignedNothrow = void *(size_t, Align, Nothrow);
using DeleteNothrow = void(void *, Nothrow);
using DeleteAlignedNothrow = void(void *, Align, Nothrow);
using DeleteSized = void(void *, size_t);
using DeleteSizedAligned = void(void *, size_t, Align);

template <typename Function> bool is_at(Function *named, const char *label)
{
    return reinterpret_cast<const char *>(named) == label;
}

// How many of the eight a call by name finds here, and how many of the other twelve.
[[gnu::noinline, gnu::cold]] int count_eight()
{
    return is_at<New>(&::operator new, label_new) + is_at<NewAligned>(&::operator new, label_new_aligned) +
           is_at<New>(&::operator new[], label_new_array) +
           is_at<NewAligned>(&::operator new[], label_new_array_aligned) +
           is_at<Delete>(&::operator delete, label_delete) +
           is_at<DeleteAligned>(&::operator delete, label_delete_aligned) +
           is_at<Delete>(&::operator delete[], label_delete_array) +
           is_at<DeleteAligned>(&::operator delete[], label_delete_array_aligned);
}

[[gnu::noinline, gnu::cold]] int count_twelve()
{
    return is_at<NewNothrow>(&::operator new, label_new_nothrow) +
           is_at<NewAlignedNothrow>(&::operator new, label_new_aligned_nothrow) +
           is_at<NewNothrow>(&::operator new[], label_new_array_nothrow) +
           is_at<NewAlignedNothrow>(&::operator new[], label_new_array_aligned_nothrow) +
           is_at<DeleteNothrow>(&::operator delete, label_delete_nothrow) +
           is_at<DeleteAlignedNothrow>(&::operator delete, label_delete_aligned_nothrow) +
           is_at<DeleteNothrow>(&::operator delete[], label_delete_array_nothrow) +
           is_at<DeleteAlignedNothrow>(&::operator delete[], label_delete_array_aligned_nothrow) +
           is_at<DeleteSized>(&::operator delete, label_delete_sized) +
           is_at<DeleteSizedAligned>(&::operator delete, label_delete_sized_aligned) +
           is_at<DeleteSized>(&::operator delete[], label_delete_array_sized) +
           is_at<DeleteSizedAligned>(&::operator delete[], label_delete_array_sized_aligned);
}

// Whether a call by name finds another operator. A program that takes an operator's address may give it one of its own, so all
// eight are judged together: then calls by name only go round, and new and delete still match. If a call by name finds none of
// the twenty here, who calls one has looked for it in this library, and means this one.
[[gnu::noinline, gnu::cold]] bool find_replaced()
{
    const int eight = count_eight();
    return eight != 8 && (eight != 0 || count_twelve() != 0);
}

enum found { NOT_LOOKED, OWN, REPLACED };
found found_last; // relaxed: each thread finds the same

[[gnu::noinline, gnu::cold]] bool look()
{
    const found now = find_replaced() ? REPLACED : OWN;
    __atomic_store_n(&found_last, now, __ATOMIC_RELAXED);
    return now == REPLACED;
}

template <typename Named, typename Own>
[[gnu::noinline, gnu::cold]] auto look_and_call(Named named, Own own) noexcept(noexcept(named()))
{
    const found last = __atomic_load_n(&found_last, __ATOMIC_RELAXED);
    return last == REPLACED || look() ? named() : own();
}

// Calls `named` if the program has replaced an operator, and else `own`.
template <typename Named, typename Own> inline auto call(Named named, Own own) noexcept(noexcept(named()))
{
    if (HAK_LIKELY(__atomic_load_n(&found_last, __ATOMIC_RELAXED) == OWN)) return own();
    return look_and_call(named, own);
}

template <typename Named> [[gnu::noinline, gnu::cold]] void *null_if_thrown(Named named) noexcept
{
    try {
        return named();
    } catch (...) {
        return nullptr;
    }
}

} // namespace

OVERRIDE void *operator new(size_t n)
{
    return throwing(n, 0, FAMILY_NEW);
}
OVERRIDE void *operator new(size_t n, Align a)
{
    return throwing(n, bytes(a), FAMILY_NEW);
}
OVERRIDE void *operator new(size_t n, Nothrow) noexcept
{
    return call([=]() noexcept { return null_if_thrown([=] { return ::operator new(n); }); },
                [=]() noexcept { return not_throwing(n, 0, FAMILY_NEW); });
}
OVERRIDE void *operator new(size_t n, Align a, Nothrow) noexcept
{
    return call([=]() noexcept { return null_if_thrown([=] { return ::operator new(n, a); }); },
                [=]() noexcept { return not_throwing(n, bytes(a), FAMILY_NEW); });
}

OVERRIDE void *operator new[](size_t n)
{
    return call([=] { return ::operator new(n); }, [=] { return throwing(n, 0, FAMILY_NEW_ARRAY); });
}
OVERRIDE void *operator new[](size_t n, Align a)
{
    return call([=] { return ::operator new(n, a); }, [=] { return throwing(n, bytes(a), FAMILY_NEW_ARRAY); });
}
OVERRIDE void *operator new[](size_t n, Nothrow) noexcept
{
    return call([=]() noexcept { return null_if_thrown([=] { return ::operator new[](n); }); },
                [=]() noexcept { return not_throwing(n, 0, FAMILY_NEW_ARRAY); });
}
OVERRIDE void *operator new[](size_t n, Align a, Nothrow) noexcept
{
    return call([=]() noexcept { return null_if_thrown([=] { return ::operator new[](n, a); }); },
                [=]() noexcept { return not_throwing(n, bytes(a), FAMILY_NEW_ARRAY); });
}

OVERRIDE void operator delete(void *p) noexcept
{
    release(p, FAMILY_NEW);
}
OVERRIDE void operator delete(void *p, Nothrow) noexcept
{
    call([=]() noexcept { ::operator delete(p); }, [=]() noexcept { release(p, FAMILY_NEW); });
}
OVERRIDE void operator delete(void *p, size_t n) noexcept
{
    call([=]() noexcept { ::operator delete(p); }, [=]() noexcept { release_sized(p, n, FAMILY_NEW); });
}
OVERRIDE void operator delete(void *p, Align a) noexcept
{
    release_aligned(p, bytes(a), FAMILY_NEW);
}
OVERRIDE void operator delete(void *p, Align a, Nothrow) noexcept
{
    call([=]() noexcept { ::operator delete(p, a); }, [=]() noexcept { release_aligned(p, bytes(a), FAMILY_NEW); });
}
OVERRIDE void operator delete(void *p, size_t n, Align a) noexcept
{
    call([=]() noexcept { ::operator delete(p, a); }, [=]() noexcept { release_both(p, n, bytes(a), FAMILY_NEW); });
}

OVERRIDE void operator delete[](void *p) noexcept
{
    call([=]() noexcept { ::operator delete(p); }, [=]() noexcept { release(p, FAMILY_NEW_ARRAY); });
}
OVERRIDE void operator delete[](void *p, Nothrow) noexcept
{
    call([=]() noexcept { ::operator delete[](p); }, [=]() noexcept { release(p, FAMILY_NEW_ARRAY); });
}
OVERRIDE void operator delete[](void *p, size_t n) noexcept
{
    call([=]() noexcept { ::operator delete[](p); }, [=]() noexcept { release_sized(p, n, FAMILY_NEW_ARRAY); });
}
OVERRIDE void operator delete[](void *p, Align a) noexcept
{
    call([=]() noexcept { ::operator delete(p, a); },
         [=]() noexcept { release_aligned(p, bytes(a), FAMILY_NEW_ARRAY); });
}
OVERRIDE void operator delete[](void *p, Align a, Nothrow) noexcept
{
    call([=]() noexcept { ::operator delete[](p, a); },
         [=]() noexcept { release_aligned(p, bytes(a), FAMILY_NEW_ARRAY); });
}
OVERRIDE void operator delete[](void *p, size_t n, Align a) noexcept
{
    call([=]() noexcept { ::operator delete[](p, a); },
         [=]() noexcept { release_both(p, n, bytes(a), FAMILY_NEW_ARRAY); });
}

// catch (...) above names these; weak, so that a C program need not have them.
HAK_CXX_RUNTIME_ASM("__gxx_personality_v0");
HAK_CXX_RUNTIME_ASM("__cxa_begin_catch");
HAK_CXX_RUNTIME_ASM("__cxa_end_catch");
HAK_CXX_RUNTIME_ASM("_ZSt9terminatev");
