// Whether this thread is inside the subject. Set by the interpreter around each call, read by the handlers of signals
// and of trapped system calls.
#pragma once

namespace stress {

// Constant-initialised and in the program itself, so that signal handlers may read it.
inline constinit thread_local bool inside_subject = false;

// Marks this thread as inside the subject while it lives. Nothing that throws may be called meanwhile: a thread
// that is cancelled inside the subject is unwound without a look at this frame, and the mark stays, which is how
// the rule `cancellation` knows.
struct InsideSubject {
    InsideSubject() { inside_subject = true; }
    ~InsideSubject() { inside_subject = false; }
};

}  // namespace stress
