// What `shrink --keep` keeps: a program costs more on one malloc than on another. "rss>1.3x:glibc" means that its peak of
// resident memory is above 1.3 times that of glibc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "program/program.h"

namespace stress {

// rss: bytes, from the start of the run to its peak. time: processor seconds, the least of three runs. faults: minor page
// faults. syscalls: calls of the malloc for memory. instructions: of the malloc's own library (libc's: of libc), counted
// by valgrind, which runs one thread at a time; they repeat.
enum class Cost { Rss, Time, Faults, Syscalls, Instructions };

struct Keep {
    Cost cost = Cost::Rss;
    double factor = 1;
    std::string allocator; // as --allocator; glibc and libc mean system
};

// nullopt: it is no such text.
std::optional<Keep> keep_parse(const std::string &text);

// The instructions that code of this library took, from the text of a callgrind file whose names and positions are not
// compressed. "": of libc.
std::uint64_t callgrind_instructions(const std::string &text, const std::string &library);

// A process with the malloc in it, which runs programs in children that all start from one heap, without checks, and
// measures them. One thread.
class CostMeter {
  public:
    // `fault` says why there is none, or is empty.
    CostMeter(const char *program_name, const std::string &allocator, Cost cost, std::string &fault);
    ~CostMeter();
    CostMeter(const CostMeter &) = delete;
    CostMeter &operator=(const CostMeter &) = delete;

    // nullopt: the program did not end well.
    std::optional<double> measure(const Program &program);

  private:
    std::string start(const char *program, std::vector<std::string> words, std::vector<std::string> environment);
    std::string start_counted(std::vector<std::string> words, const std::string &allocator);
    std::optional<double> instructions_of(pid_t child) const;

    int program_fd_ = -1, socket_ = -1;
    pid_t server_ = -1;
    std::string folder_, library_; // of valgrind's files; of the malloc
    double before_ = 0; // instructions that a program of one block takes
};

std::string cost_text(Cost cost, double value);

} // namespace stress
