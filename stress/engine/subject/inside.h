// Whether this thread is inside the subject. The interpreter sets it around each call; handlers of signals and of
// trapped system calls read it.
#pragma once

namespace stress {

// Constant-initialised and in the program itself, so that signal handlers may read it.
inline constinit thread_local bool inside_subject = false;

// Marks this thread as inside the subject while it lives. The subject must not throw: a thread that is cancelled inside
// it is unwound past this frame without the destructor, and the mark stays. The rule `cancellation` looks for that
// mark.
struct InsideSubject {
    InsideSubject() { inside_subject = true; }
    ~InsideSubject() { inside_subject = false; }
};

} // namespace stress
