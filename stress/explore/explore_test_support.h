// The explorer of the tests: there can be one in a process, since it makes the allocator under test start.
#pragma once

#include "explore/explorer.h"

namespace stress {

inline Explorer &explorer()
{
    static Explorer made;
    return made;
}

}  // namespace stress
