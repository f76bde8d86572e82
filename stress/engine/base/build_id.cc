#include "engine/base/build_id.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

namespace stress {
namespace {

constexpr std::size_t kNotesBytesMax = 1 << 16;

std::string read_part(std::ifstream &file, std::uint64_t at, std::size_t bytes)
{
    std::string part(bytes, '\0');
    file.clear();
    file.seekg(static_cast<std::streamoff>(at));
    file.read(part.data(), static_cast<std::streamsize>(bytes));
    part.resize(static_cast<std::size_t>(file.gcount()));
    return part;
}

std::string digits_of(std::string_view bytes)
{
    std::string text;
    for (const char byte : bytes) {
        text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
        text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
    }
    return text;
}

std::string find_build_id(std::string_view notes)
{
    Elf64_Nhdr note;
    while (notes.size() >= sizeof note) {
        std::memcpy(&note, notes.data(), sizeof note);
        notes.remove_prefix(sizeof note);
        const std::size_t name_bytes = (note.n_namesz + std::size_t{3}) & ~std::size_t{3};
        const std::size_t content_bytes = (note.n_descsz + std::size_t{3}) & ~std::size_t{3};
        if (name_bytes + content_bytes > notes.size()) return "";
        if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, note.n_namesz) == std::string_view("GNU", 4))
            return digits_of(notes.substr(name_bytes, note.n_descsz));
        notes.remove_prefix(name_bytes + content_bytes);
    }
    return "";
}

} // namespace

std::string file_build_id(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    Elf64_Ehdr head;
    std::string part = read_part(file, 0, sizeof head);
    if (part.size() != sizeof head || !part.starts_with(ELFMAG) || part[EI_CLASS] != ELFCLASS64) return "";
    std::memcpy(&head, part.data(), sizeof head);
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        part = read_part(file, head.e_phoff + static_cast<std::uint64_t>(i) * sizeof segment, sizeof segment);
        if (part.size() != sizeof segment) return "";
        std::memcpy(&segment, part.data(), sizeof segment);
        if (segment.p_type != PT_NOTE || segment.p_filesz > kNotesBytesMax) continue;
        if (std::string found = find_build_id(read_part(file, segment.p_offset, segment.p_filesz)); !found.empty())
            return found;
    }
    return "";
}

} // namespace stress
