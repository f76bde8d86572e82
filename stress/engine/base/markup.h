// Text for HTML and XML.
#pragma once

#include <string>

namespace stress {

// Safe between tags and inside quoted attributes, whatever the bytes are: the five special characters become entities;
// control characters, invalid UTF-8 and what is no character become U+FFFD.
std::string markup_escape(const std::string &text);

} // namespace stress
