// The threads of a run take turns: one runs until it hands over.
#pragma once

namespace stress::order {

constexpr unsigned kMain = ~0U; // who started the run
constexpr unsigned kCountedMax =
    256; // threads of a run that is counted (contention/); the memory model has kThreadsMax

class Threads {
  public:
    virtual ~Threads() = default;
    // The body will run when it is this thread's turn for the first time, and then `ended`, which ends by go() and does not
    // return. A thread that is begun again forgets what it was doing.
    virtual void begin(unsigned thread, void (*body)(unsigned), void (*ended)(unsigned)) = 0;
    // Hands over. Returns when it is the caller's turn again.
    virtual void go(unsigned to) = 0;
};

} // namespace stress::order
