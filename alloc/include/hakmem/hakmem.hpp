/* hakmem.hpp: libhakmem for C++17: an allocator for containers, a heap of the program's own as an object, and both as
 * std::pmr::memory_resource.
 *
 *   std::vector<int, hakmem::allocator<int>> numbers;     // blocks of hak_malloc
 *
 *   hakmem::heap request;                                 // blocks of hak_heap_malloc, which go back with it
 *   std::vector<int, hakmem::heap_allocator<int>> more(request.get());
 *   hakmem::heap_resource resource(request.get());
 *   std::pmr::string text("...", &resource);
 *
 * Any thread may use any of these at any time, as the functions of hakmem.h below them. Failures throw std::bad_alloc.
 * A container's blocks must be gone, or never be touched again, before its heap is destroyed: a container of objects whose
 * destructors do nothing but free may simply be forgotten. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

#include "hakmem/hakmem.h"

namespace hakmem {

namespace detail {

inline constexpr std::size_t plain_align_bytes = 16; // what hak_malloc gives

inline void *allocate(hak_heap *heap, std::size_t size_bytes, std::size_t align_bytes)
{
    void *block = nullptr;
    if (heap == nullptr)
        block = align_bytes <= plain_align_bytes ? hak_malloc(size_bytes) : hak_aligned_alloc(align_bytes, size_bytes);
    else
        block = align_bytes <= plain_align_bytes ? hak_heap_malloc(heap, size_bytes)
                                                 : hak_heap_aligned_alloc(heap, align_bytes, size_bytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
}

inline void deallocate(void *block, std::size_t size_bytes, std::size_t align_bytes) noexcept
{
    if (align_bytes <= plain_align_bytes) hak_free_sized(block, size_bytes);
    else hak_free_aligned_sized(block, align_bytes, size_bytes);
}

template <class T> T *allocate_array(hak_heap *heap, std::size_t count)
{
    if (count > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T))
        throw std::bad_array_new_length();
    return static_cast<T *>(allocate(heap, count * sizeof(T), alignof(T)));
}

} // namespace detail

/* Allocates by hak_malloc. Has no state: all are equal. */
template <class T> class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    allocator() noexcept = default;
    template <class U> allocator(const allocator<U> &) noexcept {}

    [[nodiscard]] T *allocate(std::size_t count) { return detail::allocate_array<T>(nullptr, count); }
    void deallocate(T *block, std::size_t count) noexcept
    {
        detail::deallocate(block, count * sizeof(T), alignof(T));
    }
    template <class U> bool operator==(const allocator<U> &) const noexcept { return true; }
    template <class U> bool operator!=(const allocator<U> &) const noexcept { return false; }
};

/* Owns a heap of hak_heap_new. The constructor throws std::bad_alloc. */
class heap {
  public:
    heap() : heap_(hak_heap_new())
    {
        if (heap_ == nullptr) throw std::bad_alloc();
    }
    heap(heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    heap &operator=(heap &&other) noexcept
    {
        std::swap(heap_, other.heap_);
        return *this;
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() { hak_heap_destroy(heap_); }

    hak_heap *get() const noexcept { return heap_; }
    void free_all() noexcept { hak_heap_free_all(heap_); }

  private:
    hak_heap *heap_;
};

/* Allocates from a heap, which must outlive the container's use of it. Equal where the heap is the same. */
template <class T> class heap_allocator {
  public:
    using value_type = T;
    using is_always_equal = std::false_type;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    explicit heap_allocator(hak_heap *heap) noexcept : heap_(heap) {}
    template <class U> heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.get()) {}

    [[nodiscard]] T *allocate(std::size_t count) { return detail::allocate_array<T>(heap_, count); }
    void deallocate(T *block, std::size_t count) noexcept
    {
        detail::deallocate(block, count * sizeof(T), alignof(T));
    }
    hak_heap *get() const noexcept { return heap_; }
    template <class U> bool operator==(const heap_allocator<U> &other) const noexcept { return heap_ == other.get(); }
    template <class U> bool operator!=(const heap_allocator<U> &other) const noexcept { return heap_ != other.get(); }

  private:
    hak_heap *heap_;
};

/* A memory resource on a heap, or, with nullptr, on hak_malloc. Equal where the heap is the same. */
class heap_resource : public std::pmr::memory_resource {
  public:
    explicit heap_resource(hak_heap *heap) noexcept : heap_(heap) {}

  private:
    void *do_allocate(std::size_t size_bytes, std::size_t align_bytes) override
    {
        return detail::allocate(heap_, size_bytes, align_bytes);
    }
    void do_deallocate(void *block, std::size_t size_bytes, std::size_t align_bytes) override
    {
        detail::deallocate(block, size_bytes, align_bytes);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const auto *resource = dynamic_cast<const heap_resource *>(&other);
        return resource != nullptr && resource->heap_ == heap_;
    }

    hak_heap *heap_;
};

/* The resource on hak_malloc. It is never destroyed. */
inline std::pmr::memory_resource *default_resource() noexcept
{
    alignas(heap_resource) static unsigned char storage[sizeof(heap_resource)];
    static heap_resource *const resource = new (storage) heap_resource(nullptr);
    return resource;
}

} // namespace hakmem
