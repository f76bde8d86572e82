// LD_PRELOAD separates paths by spaces and colons, and has no way to quote them.
#pragma once

#include <string>

namespace stress {

// A path of the same file that LD_PRELOAD can name: `path` itself, or a link to it in a folder of this user's below
// XDG_RUNTIME_DIR or /tmp. The link stays, for programs that start later with the same environment; the same path always
// has the same link. Returns "" and sets errno where the link cannot be made.
std::string preload_path(const std::string &path);

} // namespace stress
