// kinds_cxx.cc: what C++ programs do wrong. See kinds.h.
#include "kinds.h"

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace {

template <class T> T *hidden(T *pointer)
{
    return reinterpret_cast<T *>(opaque(pointer));
}

void new_array_delete()
{
    int *block = hidden(new int[10]); // told
    ::operator delete(block); // told
}

void new_delete_array()
{
    void *block = hidden(static_cast<char *>(::operator new(40))); // told
    ::operator delete[](block); // told
}

void malloc_delete()
{
    char *block = hidden(strdup("hello")); // told
    std::unique_ptr<char> owner(block);
    puts(owner.get());
    owner.reset(); // told
}

void new_free()
{
    int *block = hidden(new int(3)); // told
    free(block); // told
}

struct alignas(64) Line {
    char bytes[64];
};

void aligned_new_plain_delete()
{
    void *block = ::operator new(sizeof(Line), std::align_val_t(64)); // told
    ::operator delete(opaque(block)); // told
}

struct Base {
    int value = 1;
};
struct Derived : Base {
    char more[100] = {};
};

void delete_by_base()
{
    Base *object = hidden(static_cast<Base *>(new Derived)); // told
    ::operator delete(object, sizeof *object); // told
}

void write_stale_iterator()
{
    std::vector<int> numbers(10); // told
    int *first = hidden(&numbers[0]);
    numbers.resize(1000); // told
    *first = 7;
    free(opaque(malloc(40)));
}

void write_stale_view()
{
    std::string text(100, 'a'); // told
    char *data = hidden(text.data());
    text.assign(5000, 'b'); // told
    data[3] = 'c';
}

const struct kind kinds[] = {
    {"new_array_delete", "new[] and delete", new_array_delete},
    {"new_delete_array", "new and delete[]", new_delete_array},
    {"malloc_delete", "strdup and delete, by a unique_ptr", malloc_delete},
    {"new_free", "new and free", new_free},
    {"aligned_new_plain_delete", "aligned new and plain delete", aligned_new_plain_delete},
    {"delete_by_base", "sized delete with the size of a base class", delete_by_base},
    {"write_stale_iterator", "write by an iterator of a vector that has grown", write_stale_iterator},
    {"write_stale_view", "write to the old characters of a string that has grown", write_stale_view},
    {nullptr, nullptr, nullptr},
};

} // namespace

int main(int argc, char **argv)
{
    return run_kind(kinds, argc, argv);
}
