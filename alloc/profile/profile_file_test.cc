// profile_file_test.cc: the files of a heap profile: their end, their names, and what a full device refuses.
#include "heap/heap_test_support.h"

extern "C" {
#include "os/lock.h"
#include "os/os_fault.h"
#include "profile/profile.h"
#include "profile/profile_file.h"
#include "profile/profile_write.h"
}

class ProfileFile : public testing::Test {
  protected:
    void SetUp() override
    {
        if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
    }
};

TEST_F(ProfileFile, WhatAFullDeviceRefusesIsTheResult)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(64, 7), 0);
        hak_free(hak_malloc(5000));
        EXPECT_EQ(profile_write("/dev/full"), ENOSPC);
        close(STDIN_FILENO);
        errno = 7;
        EXPECT_EQ(profile_write("/dev/full"), ENOSPC) << "the file has number 0";
        for (uint64_t nth = 1;; nth++) {
            os_fault_install(nth, false);
            int error = profile_write("/dev/null");
            if (os_fault_remove() < nth) break;
            EXPECT_EQ(error, nth <= 2 ? ENOMEM : 0) << "at call " << nth << ": reserved, committed, released";
        }
        EXPECT_EQ(profile_write("/dev/null"), 0) << "the next one begins again";
        EXPECT_EQ(errno, 7);
        EXPECT_EQ(dup(STDOUT_FILENO), STDIN_FILENO) << "a file is still open";
    }));
}

// The file's last block says that it is the last, also where the one before it was full to the byte.
TEST_F(ProfileFile, AFileOfWholeBlocksHasAnEnd)
{
    constexpr size_t head = 4; // of a field of this length: its number, and three bytes of length
    for (size_t bytes : {32767, 32768, 32769, 65535, 65536, 65537}) {
        FILE *file = tmpfile();
        profile_file_begin(fileno(file));
        const std::string all(bytes - head, 'x');
        profile_put_bytes(6, all.data(), all.size());
        ASSERT_EQ(profile_file_end(), 0);
        std::string written(1 << 18, 0);
        written.resize((size_t)pread(fileno(file), written.data(), written.size(), 0));
        fclose(file);
        size_t at = 10, content = 0; // behind gzip's header
        bool is_last = false;
        while (!is_last && at + 5 <= written.size()) {
            is_last = written[at] == 1;
            const size_t length = (size_t)(uint8_t)written[at + 1] | (size_t)(uint8_t)written[at + 2] << 8;
            content += length;
            at += 5 + length;
        }
        EXPECT_TRUE(is_last) << bytes;
        EXPECT_EQ(content, bytes);
        EXPECT_EQ(at + 8, written.size()) << "the sum and the length follow";
    }
}

// A dump that another one is being written beside waits for it, also where both have the same path.
TEST_F(ProfileFile, AFileIsEmptiedByTheOneWhoseTurnItIs)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(64, 7), 0);
        char path[] = "/tmp/hakmem-dump-XXXXXX";
        const int fd = mkstemp(path);
        ASSERT_EQ(write(fd, "being written", 13), 13);
        std::atomic<pid_t> id = 0;
        lock_acquire(LOCK_DUMP);
        std::thread other([&] {
            id = gettid();
            EXPECT_EQ(profile_write(path), 0);
        });
        char state = 0;
        for (int tries = 0; state != 'S' && tries < 10000; tries++) {
            usleep(500);
            FILE *stat = fopen(("/proc/self/task/" + std::to_string(id) + "/stat").c_str(), "r");
            if (stat == nullptr) continue;
            EXPECT_EQ(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
            fclose(stat);
        }
        EXPECT_EQ(state, 'S') << "it does not wait";
        EXPECT_EQ(lseek(fd, 0, SEEK_END), 13) << "it is emptied while it is written";
        lock_release(LOCK_DUMP);
        other.join();
        EXPECT_GT(lseek(fd, 0, SEEK_END), 100);
        close(fd);
        unlink(path);
    }));
}

// A prefix of every length that fits is taken whole, also after a longer one; the files count on.
TEST_F(ProfileFile, ThePrefixOfFiles)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(64, 7), 0);
        char folder[] = "/tmp/hakmem-prefix-XXXXXX";
        ASSERT_NE(mkdtemp(folder), nullptr);
        const std::string slash = std::string(folder) + "/", too_long(1024, 'x');
        EXPECT_FALSE(profile_prefix_set("", 0));
        EXPECT_FALSE(profile_prefix_set(too_long.data(), too_long.size()));
        EXPECT_TRUE(profile_prefix_set(too_long.data(), too_long.size() - 1));
        size_t number = 0;
        for (const std::string name : {"longer", "p", "two"}) {
            const std::string prefix = slash + name;
            ASSERT_TRUE(profile_prefix_set((prefix + "and no more").c_str(), prefix.size()));
            profile_dump_next("why");
            const std::string path =
                prefix + "." + std::to_string(getpid()) + "." + std::to_string(++number) + ".why.pb.gz";
            EXPECT_EQ(unlink(path.c_str()), 0) << path;
        }
        EXPECT_EQ(rmdir(folder), 0) << "another file is there";
    }));
}
