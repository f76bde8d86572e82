// Linked into the targets that ThreadSanitizer watches: its first report ends the run, so every report is a find.
extern "C" const char *__tsan_default_options()
{
    return "halt_on_error=1:exitcode=66:second_deadlock_stack=1";
}

// libFuzzer's own thread watches time and memory. When one runs out, it saves the input while the main thread may be
// using it. A report of that race would turn the find into one of another kind.
// unwatched: the race below is in libFuzzer
extern "C" const char *__tsan_default_suppressions()
{
    // unwatched: libFuzzer's own thread saves the input while the main thread may be using it
    return "race:^fuzzer::Fuzzer::DumpCurrentUnit";
}
