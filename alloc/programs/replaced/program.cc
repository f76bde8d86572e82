// program.cc: calls each form of operator new and delete once, and prints a line for each with the operators of
// operators.cc that ran for it. What a form of delete gets, the plain new of its kind has made.
#include <stddef.h>
#include <stdio.h>

#include <new>

namespace {

bool prints;

template <typename Call> void run(const char *form, Call call)
{
    printf("%s:", form);
    prints = true;
    call();
    prints = false;
    printf("\n");
}

void *volatile block;

} // namespace

extern "C" void replaced_call(const char *name)
{
    if (prints) printf(" %s;", name);
}

int main()
{
    static char output[1 << 14]; // stdio's own would be a block
    setvbuf(stdout, output, _IOFBF, sizeof output);
    const std::align_val_t align{64};
    const size_t size = 100;
#define FORM(make, drop, create, destroy) \
    run(make, [&] { block = create; });   \
    run(drop, [&] { destroy; })
    FORM("new", "delete", ::operator new(size), ::operator delete(block));
    FORM("new", "delete size", ::operator new(size), ::operator delete(block, size));
    FORM("new nothrow", "delete nothrow", ::operator new(size, std::nothrow), ::operator delete(block, std::nothrow));
    FORM("new align", "delete align", ::operator new(size, align), ::operator delete(block, align));
    FORM("new align", "delete size align", ::operator new(size, align), ::operator delete(block, size, align));
    FORM("new align nothrow", "delete align nothrow", ::operator new(size, align, std::nothrow),
         ::operator delete(block, align, std::nothrow));
    FORM("new[]", "delete[]", ::operator new[](size), ::operator delete[](block));
    FORM("new[]", "delete[] size", ::operator new[](size), ::operator delete[](block, size));
    FORM("new[] nothrow", "delete[] nothrow", ::operator new[](size, std::nothrow),
         ::operator delete[](block, std::nothrow));
    FORM("new[] align", "delete[] align", ::operator new[](size, align), ::operator delete[](block, align));
    FORM("new[] align", "delete[] size align", ::operator new[](size, align), ::operator delete[](block, size, align));
    FORM("new[] align nothrow", "delete[] align nothrow", ::operator new[](size, align, std::nothrow),
         ::operator delete[](block, align, std::nothrow));
    return 0;
}
