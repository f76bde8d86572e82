#include "explore/names.h"

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "explore/inside/inside.h"

extern "C" const Elf64_Ehdr __ehdr_start;  // from the linker: where the program is loaded

namespace stress {
namespace {

template <class T> const T *at(const std::string &file, std::uint64_t offset, std::uint64_t count = 1)
{
    if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T *>(file.data() + offset);
}

}  // namespace

Names::Names(const Fibers &fibers) : fibers_(fibers)
{
    std::ifstream stream("/proc/self/exe", std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(stream), {}};
    const auto *header = at<Elf64_Ehdr>(file, 0);
    const auto *sections = header == nullptr ? nullptr : at<Elf64_Shdr>(file, header->e_shoff, header->e_shnum);
    for (unsigned i = 0; sections != nullptr && i < header->e_shnum; ++i) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
        const std::uint64_t count = sections[i].sh_size / sizeof(Elf64_Sym);
        const auto *symbols = at<Elf64_Sym>(file, sections[i].sh_offset, count);
        const Elf64_Shdr &names = sections[sections[i].sh_link];
        for (std::uint64_t n = 0; symbols != nullptr && n < count; ++n) {
            const Elf64_Sym &symbol = symbols[n];
            if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_name >= names.sh_size) continue;
            const std::uintptr_t base = header->e_type == ET_DYN ? reinterpret_cast<std::uintptr_t>(&__ehdr_start) : 0;
            const char *name = at<char>(file, names.sh_offset + symbol.st_name);
            if (name == nullptr || symbol.st_size == 0) continue;
            const std::uintptr_t start = base + symbol.st_value;
            symbols_.push_back({start, start + symbol.st_size, name});
        }
    }
    std::sort(symbols_.begin(), symbols_.end(), [](const Symbol &a, const Symbol &b) { return a.start < b.start; });
}

std::string Names::of(const volatile void *address) const
{
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    char text[160];
    if (inside_name(address, text, sizeof text)) return text;
    std::uintptr_t variable = place;
    std::string whose;
    const int thread = fibers_.whose(address, variable);
    if (thread >= 0) whose = "thread " + std::to_string(thread) + "'s ";
    auto next = std::upper_bound(symbols_.begin(), symbols_.end(), variable,
                                 [](std::uintptr_t value, const Symbol &symbol) { return value < symbol.start; });
    if (next != symbols_.begin() && variable < (--next)->end) {
        const std::uintptr_t offset = variable - next->start;
        return whose + next->name + (offset == 0 ? "" : " + " + std::to_string(offset));
    }
    std::snprintf(text, sizeof text, "%p", const_cast<const void *>(address));
    return text;
}

}  // namespace stress
