// Which memory several threads of a run use, one of them to write: by granules of 16 bytes, the largest atomic object. What
// one thread alone uses, or all only read, no other thread can notice, so no thread need be switched before it and the model
// need not see it. Runs find the shared memory: a run in which more turns out to be shared is made again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stress::order {

class Sharing {
  public:
    Sharing() : table_(1 << 12) {}

    // A new run. It begins with the shared memory that earlier runs found.
    void begin();
    // Whether another thread can notice this access. False: it is the thread's own matter, unless has_grown() by now.
    bool touch(const volatile void *address, std::size_t bytes, bool is_write, unsigned thread);
    // This run has found shared memory that was not known, so it is void.
    bool has_grown() const { return has_grown_; }

    std::size_t known() const { return shared_.size(); }
    // Forgets all but the first ones.
    void keep_first(std::size_t count);

  private:
    struct Entry {
        std::uintptr_t granule = 0; // 0: free
        std::uint32_t run = 0; // that the masks are of
        std::uint16_t readers = 0, writers = 0; // a bit a thread
        bool is_shared = false;
    };
    bool touch_one(std::uintptr_t granule, bool is_write, unsigned thread);
    Entry &find(std::uintptr_t granule);
    void grow();

    std::vector<Entry> table_; // open addressing; its size is a power of 2
    std::vector<std::uintptr_t> shared_;
    std::size_t used_ = 0;
    std::uint32_t run_ = 0;
    bool has_grown_ = false;
};

} // namespace stress::order
