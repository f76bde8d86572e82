// Static and thread-local objects of C++ that allocate and free. A thread-local object keeps the library loaded
// until its thread ends, and libc registers its destructor in memory from the subject.
#include "plugin.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

// Does not use operator new, which in this program is the harness's own.
struct Text {
    explicit Text(const char *from) : start(static_cast<char *>(std::malloc(std::strlen(from) + 1)))
    {
        if (start != nullptr) std::strcpy(start, from);
    }
    ~Text()
    {
        std::free(start);
        std::free(std::malloc(500));
    }
    Text(const Text &) = delete;
    Text &operator=(const Text &) = delete;
    char *start;
};

Text first("a static object");
Text second("another static object, longer than the first one");
thread_local Text of_thread("a thread-local object");

}  // namespace

void *plugin_take(size_t size_bytes)
{
    void *start = nullptr;
    return posix_memalign(&start, 64, size_bytes) == 0 ? start : nullptr;
}

void plugin_give(void *block)
{
    std::free(block);
}

int plugin_use(void)
{
    for (const Text *text : {&first, &second}) {
        if (text->start == nullptr) continue;  // memory was scarce
        if (std::strncmp(text->start, "a", 1) != 0) return 1;
    }
    return of_thread.start != nullptr && std::strcmp(of_thread.start, "a thread-local object") != 0 ? 2 : 0;
}
