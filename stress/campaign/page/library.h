// Which file a malloc is: the name on a report tells little, and a file is replaced by the next build.
#pragma once

#include <string>

namespace stress {

struct Library {
    std::string allocator;
    std::string path; // the real one, which often has the version in its name
    std::string build_id; // engine/base/build_id.h
    std::string fault; // why it is not known; empty: it is
};

// Of an allocator: system, hakmem, validate or the path of a library.
Library library_of(const std::string &allocator);

} // namespace stress
