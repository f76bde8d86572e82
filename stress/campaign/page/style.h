// The style sheet of the report.
#pragma once

namespace stress {

extern const char *const kPageStyle;

}  // namespace stress
