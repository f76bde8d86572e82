// consumer.c with operator new.
#include <hakmem/hakmem.hpp>

#include <cstdio>
#include <vector>

int main()
{
    hak_stats before, after;
    hak_stats_get(&before);
    std::vector<char> block(5 << 20, 1);
    std::vector<char, hakmem::allocator<char>> ours(100, 1);
    hak_stats_get(&after);
    std::printf("%s %s\n", after.huge_count > before.huge_count && block[1] == 1 ? "ours" : "libc", hak_version());
}
