// Memory of the harness itself: mapped from the kernel before a run, never from the malloc under test.
//
// harness_resident_bytes() is the sum of all live Mapped arrays. Every array is touched in full when it is made, so the
// sum is exactly what they add to the resident set. The memory meter subtracts it.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "engine/base/build.h"

namespace stress {

// Where to ask the kernel for this much memory of the harness: in a part of the address space of its own. A malloc
// decides by addresses, so these must not depend on how much the harness has mapped: a run that is recorded has a log,
// and one that repeats it has a file of ops. A hint: where the system has no such addresses, or a sanitizer uses them,
// the kernel chooses.
void *harness_place(std::size_t size_bytes);

// mmap of private anonymous memory with extra flags, for the harness itself. A run may limit the address space to test
// the subject; if only that limit is in the way, the limit is lifted for the call. MAP_FAILED like mmap.
void *harness_mmap(std::size_t size_bytes, int more_flags);

// Maps whole zeroed pages and touches them. If the kernel has no memory left, ends the process with a one-line message.
void *harness_map(std::size_t size_bytes);
void harness_unmap(void *start, std::size_t size_bytes);
std::size_t harness_resident_bytes();
// Counts harness memory that was mapped and touched by other means.
void harness_count_resident(std::size_t size_bytes);

// Lets standard containers live in such memory, for lists that grow only between runs.
template <typename T> struct MappedAllocator {
    using value_type = T;
    MappedAllocator() = default;
    template <typename U> MappedAllocator(const MappedAllocator<U> &) {}
    T *allocate(std::size_t count) { return static_cast<T *>(harness_map(count * sizeof(T))); }
    void deallocate(T *start, std::size_t count) { harness_unmap(start, count * sizeof(T)); }
    friend bool operator==(MappedAllocator, MappedAllocator) { return true; }
};

// A fixed array of T. Elements start out as zero bytes, or as default-constructed objects.
template <typename T> class Mapped {
  public:
    Mapped() = default;
    explicit Mapped(std::size_t count) : start_(static_cast<T *>(harness_map(count * sizeof(T)))), count_(count)
    {
        if constexpr (!std::is_trivially_default_constructible_v<T>)
            for (std::size_t i = 0; i < count; ++i) new (start_ + i) T();
    }
    Mapped(Mapped &&other) noexcept
        : start_(std::exchange(other.start_, nullptr)), count_(std::exchange(other.count_, 0))
    {}
    Mapped &operator=(Mapped &&other) noexcept
    {
        std::swap(start_, other.start_);
        std::swap(count_, other.count_);
        return *this;
    }
    ~Mapped()
    {
        if (start_ == nullptr) return;
        for (std::size_t i = 0; i < count_; ++i) start_[i].~T();
        harness_unmap(start_, count_ * sizeof(T));
    }

    T &operator[](std::size_t index) { return start_[checked(index)]; }
    const T &operator[](std::size_t index) const { return start_[checked(index)]; }
    T *begin() { return start_; }
    T *end() { return start_ + count_; }
    const T *begin() const { return start_; }
    const T *end() const { return start_ + count_; }
    std::size_t size() const { return count_; }

  private:
    std::size_t checked(std::size_t index) const
    {
        if (kIndexesChecked && index >= count_) __builtin_trap();
        return index;
    }

    T *start_ = nullptr;
    std::size_t count_ = 0;
};

} // namespace stress
