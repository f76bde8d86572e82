// amount_test.cc: amounts of memory as options write them: bytes, K, M, G, and a share of the machine's or the cgroup's.
#include "base/test_support.h"

#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" {
#include "control/amount.h"
}

namespace {

// A folder with files, as root of amount_read.
struct Root {
    std::string path;
    Root()
    {
        char name[] = "/tmp/hakmem-amount-XXXXXX";
        path = mkdtemp(name);
    }
    ~Root() { (void)!system(("rm -rf '" + path + "'").c_str()); }
    void put(const std::string &name, const std::string &content) const
    {
        (void)!system(("mkdir -p \"$(dirname '" + path + name + "')\"").c_str());
        FILE *file = fopen((path + name).c_str(), "w");
        fputs(content.c_str(), file);
        fclose(file);
    }
};

} // namespace

TEST(Amount, IsReadFromText)
{
    size_t bytes = 0;
    EXPECT_TRUE(amount_read("4096", "", &bytes));
    EXPECT_EQ(bytes, 4096u);
    EXPECT_TRUE(amount_read("3G", "", &bytes));
    EXPECT_EQ(bytes, (size_t)3 << 30);
    EXPECT_TRUE(amount_read("2K", "", &bytes));
    EXPECT_EQ(bytes, 2048u);
    for (const char *bad : {"", "0", "x", "1X", "1KK", "-1", "101%", "5%%", "99999999999999999999", "99999999999T"})
        EXPECT_FALSE(amount_read(bad, "", &bytes)) << bad;
    size_t all = 0;
    EXPECT_TRUE(amount_read("100%", "/nowhere", &all));
    EXPECT_EQ(all, (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
}

TEST(Amount, IsReadFromCgroups)
{
    size_t bytes = 0;
    {
        Root v2;
        v2.put("/proc/self/cgroup", "0::/a/b\n");
        v2.put("/sys/fs/cgroup/a/b/memory.max", "max\n");
        v2.put("/sys/fs/cgroup/a/memory.max", "104857600\n");
        EXPECT_TRUE(amount_read("80%", v2.path.c_str(), &bytes));
        EXPECT_EQ(bytes, 83886080u) << "of the parent's limit";
        v2.put("/sys/fs/cgroup/a/b/memory.max", "52428800\n");
        EXPECT_TRUE(amount_read("80%", v2.path.c_str(), &bytes));
        EXPECT_EQ(bytes, 41943040u) << "of its own, which is lower";
        v2.put("/sys/fs/cgroup/a/memory.max", "10485760\n");
        EXPECT_TRUE(amount_read("80%", v2.path.c_str(), &bytes));
        EXPECT_EQ(bytes, 8388608u) << "of the parent's, which is lower still";
        v2.put("/proc/self/cgroup", "0::/\n");
        v2.put("/sys/fs/cgroup/memory.max", "1000000\n");
        EXPECT_TRUE(amount_read("50%", v2.path.c_str(), &bytes));
        EXPECT_EQ(bytes, 500000u) << "in a container the cgroup is the root";
        v2.put("/proc/self/cgroup", "0::/a\n");
        EXPECT_TRUE(amount_read("50%", v2.path.c_str(), &bytes));
        EXPECT_EQ(bytes, 500000u) << "or is below it, and the root has the container's limit";
    }
    Root v1;
    v1.put("/proc/self/cgroup", "12:cpu,cpuacct:/x\n7:hugetlb,memory:/m/n\n1:name=systemd:/y\n");
    v1.put("/sys/fs/cgroup/memory/m/n/memory.limit_in_bytes", "9223372036854771712\n");
    v1.put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "20971520\n");
    EXPECT_TRUE(amount_read("10%", v1.path.c_str(), &bytes));
    EXPECT_EQ(bytes, 2097152u);
}

TEST(Amount, WhatMayBeFaultedIn)
{
    Root machine;
    const char *root = machine.path.c_str();
    const size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    EXPECT_TRUE(amount_is_there(all - all / 16, root)) << "nothing more is known";
    EXPECT_FALSE(amount_is_there(all - all / 16 + 1, root));
    machine.put("/proc/meminfo", "MemTotal:  9999 kB\nMemFree:  100 kB\nMemAvailable:    160 kB\nBuffers: 1 kB\n");
    EXPECT_TRUE(amount_is_there(150 * 1024, root));
    EXPECT_FALSE(amount_is_there(150 * 1024 + 1, root)) << "others have the rest";
    machine.put("/proc/self/cgroup", "0::/a\n");
    machine.put("/sys/fs/cgroup/a/memory.max", "16000\n");
    EXPECT_TRUE(amount_is_there(15000, root));
    EXPECT_FALSE(amount_is_there(15001, root)) << "the cgroup has less than the machine";
    machine.put("/sys/fs/cgroup/a/memory.max", "16000000\n");
    EXPECT_FALSE(amount_is_there(150 * 1024 + 1, root)) << "the machine has less than the cgroup";
    machine.put("/proc/meminfo", "MemTotal:  1 kB\n");
    EXPECT_TRUE(amount_is_there(15000000, root)) << "a kernel that does not say what is available";
}
