// operators.cc: the eight operators by which the C++ standard defines the other forms, as a program's own. check
// links a library for each set of them. A block begins HEADER bytes into one of malloc's, so another free or delete is noticed.
#include <stddef.h>
#include <stdlib.h>

#include <new>

extern "C" void replaced_call(const char *name); // of program.cc

namespace {

constexpr size_t HEADER = 4096;

void *make(const char *name, size_t size, size_t align)
{
    replaced_call(name);
    char *block = static_cast<char *>(aligned_alloc(align, (size + HEADER + align - 1) / align * align));
    if (block == nullptr) throw std::bad_alloc();
    return block + HEADER;
}

void drop(const char *name, void *block)
{
    replaced_call(name);
    free(static_cast<char *>(block) - HEADER);
}

} // namespace

using Align = std::align_val_t;

void *operator new(size_t n)
{
    return make("new", n, 16);
}
void *operator new[](size_t n)
{
    return make("new[]", n, 16);
}
void *operator new(size_t n, Align a)
{
    return make("new align", n, static_cast<size_t>(a));
}
void *operator new[](size_t n, Align a)
{
    return make("new[] align", n, static_cast<size_t>(a));
}
void operator delete(void *p) noexcept
{
    drop("delete", p);
}
void operator delete[](void *p) noexcept
{
    drop("delete[]", p);
}
void operator delete(void *p, Align) noexcept
{
    drop("delete align", p);
}
void operator delete[](void *p, Align) noexcept
{
    drop("delete[] align", p);
}
