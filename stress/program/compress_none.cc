// For a build without libzstd.
#include <cstdlib>

#include "program/compress.h"

namespace stress {

bool compress_available()
{
    return false;
}

void compress_append(std::string &, std::span<const char>, int)
{
    std::abort(); // callers ask compress_available first
}

Decompressor::Decompressor() = default;

bool Decompressor::into(std::span<char>, std::span<const char>)
{
    return context_ != nullptr; // never
}

} // namespace stress
