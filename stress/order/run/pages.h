// The memory that a subject asks the system for, and how a subject's state comes back before each run.
//
// Each thread gets addresses from an arena of its own, so they do not depend on what other threads do. take() keeps the
// subject's state. From then on the first write to each line of 64 bytes saves what was there, by the calls of instrumented
// code. restore() writes it back and takes away what was mapped since. Writes of code that is not instrumented are not seen:
// is_restored() compares everything, and pages that differ are written back whole from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace stress::order {

class Pages {
  public:
    static constexpr unsigned kArenas = 9; // of threads 0 to 7; the last of further ones, and of who starts the run
    static constexpr std::size_t kArenaBytes = std::size_t{1} << 40;

    // Reserves the arenas. False: the system has no such addresses.
    bool reserve();
    // While it is, calls for memory are the subject's.
    bool is_active = false;

    // The system's calls, with its results: at least 0, or an errno value, negated.
    long call(unsigned thread, long number, const long (&arguments)[6]);

    // Whether these bytes are of a run, and nothing of them is mapped any more.
    bool is_gone(std::uintptr_t start, std::size_t bytes) const;

    // Memory of the subject beside the arenas: its variables.
    void add(std::uintptr_t start, std::size_t bytes) { variables_.push_back({start, bytes}); }
    void take();
    void before_write(const volatile void *address, std::size_t bytes);
    // What the memory is like at the end of a run, before restore().
    std::uint64_t digest() const;
    void restore();
    // False: something was not. Its pages are written back whole from now on.
    bool is_restored();
    std::size_t unseen() const { return whole_.size(); } // pages of that kind

  private:
    struct Range {
        std::uintptr_t start;
        std::size_t bytes;
        std::uintptr_t end() const { return start + bytes; }
    };
    struct Saved {
        std::uintptr_t start;
        std::uint32_t bytes;
        std::size_t at; // in bytes_
    };
    struct Mapped {
        std::uintptr_t end = 0;
        int protection = 0;
    };
    bool is_kept(std::uintptr_t address) const;
    unsigned arena_of(std::uintptr_t address) const { return static_cast<unsigned>((address - base_) / kArenaBytes); }
    bool is_arena(std::uintptr_t address) const { return address - base_ < kArenas * kArenaBytes; }
    long map(unsigned thread, const long (&arguments)[6]);
    long remap(unsigned thread, const long (&arguments)[6]);
    std::uintptr_t place(unsigned thread, std::size_t bytes);
    void change(std::uintptr_t start, std::size_t bytes, int protection, bool drops);
    using Mappings = std::map<std::uintptr_t, Mapped>; // by their start
    static void note_mapped(Mappings &all, std::uintptr_t start, std::size_t bytes, int protection);
    void save(std::uintptr_t start, std::size_t bytes);
    template <class Use> void each_resident(Range range, Use use) const;
    template <class Use> void each_kept_page(Use use) const;

    std::uintptr_t base_ = 0;
    std::uintptr_t next_[kArenas] = {}, kept_next_[kArenas] = {};
    std::vector<Range> variables_;
    Mappings mapped_, run_mapped_; // as take() found them; those of this run
    std::vector<Range> changed_; // by calls of this run, of what take() found
    bool is_taken_ = false;
    std::unordered_map<std::uintptr_t, std::vector<unsigned char>> pages_; // what take() found; others are zero
    std::vector<std::uintptr_t> whole_;
    std::vector<Saved> saved_;
    std::vector<unsigned char> bytes_;
    std::unordered_map<std::uintptr_t, std::uint32_t> lines_; // saved in which run
    std::uint32_t run_ = 1;
};

// The subject's; nullptr: there is none, as in litmus tests.
inline Pages *pages_now = nullptr;

} // namespace stress::order
