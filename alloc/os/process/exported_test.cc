// exported_test.cc: the tables of the names that a file exports, wherever it lies and whether the dynamic linker mapped it or the kernel.
#include "base/test_support.h"

extern "C" {
#include "os/process/exported.h"
}

namespace {

// A file that defines `found`, uses `undefined`, and has a table of names of either kind.
struct File {
    static constexpr char STRINGS[] = "\0found\0undefined";
    ElfW(Sym) symbols[3] = {};
    uint32_t hash[2 + 1 + 3] = {1, 3, 1, 0, 0, 0}; // one bucket, three symbols; exported_find reads the number only
    uint32_t gnu_hash[4 + 2 + 1 + 2] = {1, 1, 1, 0, 0, 0, 1};
    ElfW(Dyn) dynamic[4] = {};

    // The dynamic section has the tables as offsets from base, or as addresses.
    File(uintptr_t base, bool are_addresses, bool is_gnu)
    {
        symbols[1].st_name = 1, symbols[1].st_shndx = 1, symbols[1].st_value = 0x123;
        symbols[2].st_name = 7; // SHN_UNDEF
        gnu_hash[7] = gnu_hash_of("found") & ~1u, gnu_hash[8] = gnu_hash_of("undefined") | 1;
        const void *tables[] = {symbols, STRINGS, is_gnu ? gnu_hash : hash};
        const int tags[] = {DT_SYMTAB, DT_STRTAB, is_gnu ? DT_GNU_HASH : DT_HASH};
        for (int i = 0; i < 3; i++) {
            dynamic[i].d_tag = tags[i];
            dynamic[i].d_un.d_ptr = (uintptr_t)tables[i] - (are_addresses ? 0 : base);
        }
    }
    static uint32_t gnu_hash_of(const char *name)
    {
        uint32_t hash = 5381;
        for (; *name != '\0'; name++) hash = hash * 33 + (unsigned char)*name;
        return hash;
    }
};

} // namespace

// The kernel's own file has offsets that wrap around, before Linux 3.16: 0xffffffffff700000 and more.
TEST(Exported, WhereverTheFileLies)
{
    const auto here = (uintptr_t)&File::STRINGS & -(uintptr_t)4096;
    for (const uintptr_t base : {here, (uintptr_t)0x1000, here + 0x900000, UINTPTR_MAX - 0xfff})
        for (const bool is_gnu : {false, true}) {
            SCOPED_TRACE("base " + std::to_string(base) + ", GNU " + std::to_string(is_gnu));
            const File file(base, false, is_gnu);
            exported names;
            ASSERT_TRUE(exported_read(base, file.dynamic, false, &names));
            EXPECT_EQ(exported_find(&names, "found"), base + 0x123);
            EXPECT_EQ(exported_find(&names, "undefined"), 0u);
            EXPECT_EQ(exported_find(&names, "foun"), 0u);
        }
}

TEST(Exported, OffsetsOrAddresses)
{
    const uintptr_t base = 0x10000; // below the tables, as that of a file
    for (const bool are_addresses : {false, true}) {
        File file(base, are_addresses, true);
        if (!are_addresses) // small, as in a file: the tables lie at their offsets from the base
            for (int i = 0; i < 3; i++) file.dynamic[i].d_un.d_ptr = 0x10 * ((uintptr_t)i + 1);
        exported names;
        ASSERT_TRUE(exported_read(base, file.dynamic, true, &names));
        EXPECT_EQ((uintptr_t)names.symbols, are_addresses ? (uintptr_t)file.symbols : base + 0x10);
        EXPECT_EQ((uintptr_t)names.strings, are_addresses ? (uintptr_t)File::STRINGS : base + 0x20);
        if (are_addresses) EXPECT_EQ(exported_find(&names, "found"), base + 0x123);
    }
}

TEST(Exported, WithoutTables)
{
    const ElfW(Dyn) nothing[] = {{.d_tag = DT_NULL, .d_un = {}}};
    exported names;
    EXPECT_FALSE(exported_read(0x1000, nothing, true, &names));
}
