// Linked into the targets that ThreadSanitizer watches: its first report ends the run, and so is a find.
extern "C" const char *__tsan_default_options()
{
    return "halt_on_error=1:exitcode=66:second_deadlock_stack=1";
}

// A thread of libFuzzer's own watches time and memory, and when one runs out it saves the input while the main thread
// may be at work on it: a report of that would end the run as another kind of find.
extern "C" const char *__tsan_default_suppressions()
{
    return "race:^fuzzer::Fuzzer::DumpCurrentUnit";
}
