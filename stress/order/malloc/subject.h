// A malloc that was compiled with -fsanitize=thread, as a shared library.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "order/malloc/inside.h"
#include "order/run/seats.h"

namespace stress::order {

struct Subject {
    std::string path, prefix; // of its functions: empty, mi_, rp, hak_
    void *(*malloc)(std::size_t) = nullptr;
    void (*free)(void *) = nullptr;
    void *(*realloc)(void *, std::size_t) = nullptr;
    void *(*calloc)(std::size_t, std::size_t) = nullptr;
    void *(*aligned_alloc)(std::size_t, std::size_t) = nullptr; // nullptr: none
    void (*begin_thread)() = nullptr; // each thread must call it first; nullptr: none
    void (*end_thread)() = nullptr; // the same at the end of a thread
    void (*trim)() = nullptr; // gives back to the system what it can; nullptr: none
    const order_scenario *scenarios = nullptr; // that it brings; nullptr: none
    ThreadLocal thread_local_variables;
    std::vector<std::pair<std::uintptr_t, std::size_t>> variables; // where the others are
};

// Empty, or what is wrong with the file and how to mend it.
std::string subject_load(const std::string &path, Subject &subject);
// A function of the malloc's that was loaded; nullptr: it has none of this name.
void *subject_symbol(const char *name);
template <class T> void subject_find(const char *name, T *&function)
{
    function = reinterpret_cast<T *>(subject_symbol(name));
}

} // namespace stress::order
