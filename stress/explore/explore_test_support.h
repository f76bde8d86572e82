// The explorer of the tests. A process can have only one, since it starts the allocator under test.
#pragma once

#include "explore/explorer.h"

namespace stress {

inline Explorer &explorer()
{
    static Explorer made;
    return made;
}

}  // namespace stress
