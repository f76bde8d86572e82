"""usage: self_test.py

Tests the report of ci/coverage. First, planted faults for the code that reads and judges. Then everything together, on
a small program with a preloaded library; its processes are forked and killed while they count. Exit status 1 if a fault
is not found; 77, after the first part, without clang-19 and its tools.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import counts
import main
import reasons

LCOV = """SF:/r/alloc/a.c
DA:1,5
DA:2,0
DA:3,0
DA:6,4
DA:9,0
end_of_record
SF:/r/alloc/a.h
DA:2,7
DA:8,0
end_of_record
SF:/usr/include/x.h
DA:1,0
end_of_record
"""
# Two copies of an inlined function. Each uses a macro twice, with a condition in it; one copy sees outcomes that the
# other does not.
USES = [[4, 9, 4, 15, 1, 0, 1, 1], [5, 9, 5, 15, 1, 0, 2, 1]]
INLINED = ["/r/alloc/a.h", "/r/alloc/policy.h", "/r/alloc/policy.h"]
EXPORT = """{"data": [{"functions": [
  {"name": "a.c:inlined", "count": 1, "filenames": %s, "regions": [[2, 1, 7, 2, 1, 0, 0, 0], %s, %s],
   "branches": [[9, 3, 9, 7, 1, 0, 1, 0, 4], [9, 3, 9, 7, 0, 2, 2, 0, 4]]},
  {"name": "b.c:inlined", "count": 1, "filenames": %s, "regions": [[2, 1, 7, 2, 1, 0, 0, 0], %s, %s],
   "branches": [[9, 3, 9, 7, 0, 3, 1, 0, 4], [9, 3, 9, 7, 0, 1, 2, 0, 4]]},
  {"name": "c.c:inlined", "count": 0, "filenames": ["/r/alloc/a.h"], "regions": [[2, 1, 7, 2, 0, 0, 0, 0]],
   "branches": []},
  {"name": "first", "count": 5, "filenames": ["/r/alloc/a.c"], "regions": [[1, 1, 3, 2, 5, 0, 0, 0]], "branches": []},
  {"name": "second", "count": 4, "filenames": ["/r/alloc/a.c"], "regions": [[6, 1, 9, 2, 4, 0, 0, 0]], "branches": []}
]}]}""" % (
    tuple(str(part).replace("'", '"') for part in (INLINED, *USES)) * 2
)
SPANS = [("a.c", 2, 3, "first", 2), ("a.c", 9, 9, "second", 1)]

# Each row: what the marks are; the file, line and text of each; the reasons of the two ranges; the stale ones.
MARKS = [
    (
        "beside and above",
        [("a.c", 3, "/* unreached: why */"), ("a.c", 8, "// unreached: why too")],
        ["why", "why too"],
        [],
    ),
    ("of two lines", [("a.c", 1, "/* unreached: why\n   not */")], ["why not", ""], []),
    ("above a function", [("a.c", 5, "/* unreached: why */")], ["", "why"], []),
    ("elsewhere in the function", [("a.c", 6, "/* unreached: why */")], ["", ""], ["alloc/a.c:6"]),
    ("a whole file", [("a.c", 4, "/* unreached file: why */")], ["why", "why"], []),
    ("a whole file that is reached", [("a.h", 1, "/* unreached file: why */")], ["", ""], ["alloc/a.h:1"]),
    ("below all functions", [("a.c", 12, "/* unreached: why */")], ["", ""], ["alloc/a.c:12"]),
    ("chance", [("a.h", 3, "/* unreached: by chance: two threads */")], ["", ""], []),
    ("one of two", [("a.c", 2, "/* unreached: why */"), ("a.c", 3, "/* unreached: x */")], ["why", ""], []),
]

# Each row: percent of lines, percent of branches, limits, number of failures.
VERDICTS = [
    (95.0, 85.0, (95.0, 85.0), 0),
    (94.99, 85.0, (95.0, 85.0), 1),
    (95.0, 84.99, (95.0, 85.0), 1),
    (1.0, 2.0, (95.0, 85.0), 2),
    (1.0, 2.0, (None, None), 0),
    (1.0, 2.0, (None, 3.0), 1),
]

LIBRARY = """#include <signal.h>
#include <stdlib.h>
static int checked(int value)
{
    return value == 9;
}
int library(int value, const char *end)
{
    if (VALIDATE && checked(value)) return 1;
    if (value > 1 || value == 7) {
        if (*end == 'k') raise(SIGKILL);
        if (*end == 'a') abort();
        return 2;
    }
    return 3;
}
"""
PROGRAM = """#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments)
{
    int (*library)(int, const char *) = (int (*)(int, const char *))dlsym(RTLD_DEFAULT, "library");
    if (count < 3 || library == NULL) return 1;
    if (fork() == 0) _exit(library(atoi(arguments[1]), arguments[2]));
    wait(NULL);
    return 0;
}
"""
COUNTERS = [
    "-O1",
    "-fprofile-instr-generate",
    "-fcoverage-mapping",
    "-fprofile-update=atomic",
    "-mllvm",
    "-runtime-counter-relocation",
]


class Tests:
    def __init__(self):
        self.run = 0
        self.wrong = 0

    def same(self, what, found, expected):
        self.run += 1
        if found != expected:
            self.wrong += 1
            print(f"self-test: {what}: expected {expected}, found {found}")


def fresh():
    return counts.read([(LCOV, EXPORT)], "/r/alloc/")


def spans(files):
    return [span for path, file in files.items() for span in reasons.ranges(path, file)]


def test_counts(tests):
    files = fresh()
    tests.same("files below the prefix", list(files), ["a.c", "a.h"])
    tests.same("a macro's body is no line", files["a.h"].lines, {2: 7})
    for name, plain in (
        ("f", "f"),
        ("a.c:f", "f"),
        ("new.cc:(anonymous namespace)::f(char const*)", "f"),
        ("operator new(unsigned long)", "operator new"),
    ):
        tests.same(f"name {name}", counts.plain_name(name), plain)
    tests.same("lines", (files["a.c"].lines_hit(), len(files["a.c"].lines)), (2, 5))
    tests.same("two uses of a macro, copies joined", sorted(files["a.h"].branches.values()), [[0, 3], [1, 3]])
    tests.same("outcomes", (files["a.h"].branches_hit(), files["a.h"].branches_all()), (3, 4))
    again = counts.read([(counts.lcov(files, "/r/alloc/"), EXPORT)], "/r/alloc/")
    other = counts.read([(LCOV.replace("DA:2,0", "DA:2,3"), EXPORT), (LCOV, EXPORT)], "/r/alloc/")
    tests.same("lines of two objects", other["a.c"].lines, {1: 5, 2: 3, 3: 0, 6: 4, 9: 0})
    dropped = (LCOV.replace("DA:3,0", "DA:3,0\nDA:7,0"), EXPORT.replace('"count": 4', '"count": 0'))
    for exports in ([dropped, (LCOV, EXPORT)], [(LCOV, EXPORT), dropped]):
        tests.same("a comment in dropped code", 7 in counts.read(exports, "/r/alloc/")["a.c"].lines, False)
    tests.same("code that no object has", 7 in counts.read([dropped], "/r/alloc/")["a.c"].lines, True)
    tests.same(
        "lcov written and read", [file.lines for file in again.values()], [file.lines for file in files.values()]
    )
    tests.same("lcov's branches", counts.lcov(files, "").count("BRDA:4,"), 2)
    text, lines, branches = main.table(files)
    tests.same("totals", (round(lines, 1), branches, len(text)), (50.0, 75.0, 4))
    tests.same(
        "lost counts",
        main.lost(
            "hash-mismatch: No profile record found for 'x.c:f' with hash = 0x0\n"
            "hash-mismatch: No profile record found for 'x.c:g' with hash = 0x1A0\n"
        ),
        ["x.c:g"],
    )


def test_reasons(tests):
    found = [(span.path, span.first, span.last, span.function, span.lines) for span in spans(fresh())]
    tests.same("ranges, apart by function", found, SPANS)
    for what, placed, given, stale in MARKS:
        files = fresh()
        missed = spans(files)
        known = [mark for path, line, text in placed for mark in reasons.marks(path, "\n" * (line - 1) + text)]
        told = reasons.explain(missed, known, files)
        tests.same(f"marks, {what}", [span.reason for span in missed], given)
        tests.same(f"stale, {what}", [line.split(": '")[0] for line in told], stale)
    tests.same(
        "no reason is counted",
        list(main.missed_lines(spans(fresh())))[1:],
        ["alloc/a.c:9 second: NO REASON", "2 ranges of 3 lines not reached; 2 of 3 lines have no reason"],
    )
    for lines, branches, limits, failures in VERDICTS:
        tests.same(f"verdict {lines} {branches}", len(main.verdict(lines, branches, limits, [])), failures)
    tests.same("verdict of a stale reason", len(main.verdict(100.0, 100.0, (95.0, 85.0), ["x"])), 1)


def run_counted(folder, library, *arguments):
    environment = dict(os.environ, LLVM_PROFILE_FILE=f"{folder}/raw/%p-%m%c.profraw", LD_PRELOAD=str(folder / library))
    subprocess.run([folder / "program", *arguments], env=environment, check=True)


def test_whole(tests, folder):
    """A library in two builds, preloaded into a program whose children end in three ways."""
    alloc = folder / "alloc"
    alloc.mkdir()
    (alloc / "library.c").write_text(LIBRARY, encoding="utf-8")
    (folder / "program.c").write_text(PROGRAM, encoding="utf-8")
    for validate in (0, 1):
        subprocess.run(
            [
                "clang-19",
                *COUNTERS,
                "-fPIC",
                "-shared",
                f"-DVALIDATE={validate}",
                "-o",
                folder / f"lib{validate}.so",
                alloc / "library.c",
            ],
            check=True,
        )
    # It calls the preloaded library, and is not counted itself.
    subprocess.run(["clang-19", "-D_GNU_SOURCE", "-o", folder / "program", folder / "program.c", "-ldl"], check=True)
    (folder / "raw").mkdir()
    run_counted(folder, "lib0.so", "2", "k")
    run_counted(folder, "lib1.so", "2", "a")
    objects = [folder / "lib0.so", folder / "lib1.so"]

    def reached():
        files = counts.read(main.collect(folder / "raw", objects, alloc, folder / "report"), f"{alloc}/")
        return files["library.c"]

    file = reached()
    # Both killed children have counted. If a process ends in a call that might return, the lines after the call count
    # as well: line 13, and the branch of line 12 that does not abort.
    tests.same("lines of killed processes", sorted(line for line, count in file.lines.items() if count == 0), [15])
    # VALIDATE is constant in both builds, so it is not a branch.
    seen = {chain[0][:2]: values for chain, values in file.branches.items()}
    tests.same(
        "branches",
        sorted(seen.items()),
        [((9, 21), [0, 1]), ((10, 9), [2, 0]), ((10, 22), [0, 0]), ((11, 13), [1, 1]), ((12, 13), [1, 1])],
    )
    run_counted(folder, "lib0.so", "9", "-")
    run_counted(folder, "lib1.so", "9", "-")
    run_counted(folder, "lib0.so", "0", "-")
    file = reached()
    tests.same("lines that one build alone reaches", min(file.lines.values()) > 0, True)
    tests.same("a function that one build drops", file.lines.get(5, 0) > 0, True)
    tests.same("branches that one build alone has", file.branches_hit(), 9)
    tests.same("a page", (folder / "report/index.html").exists(), True)


def self_test():
    tests = Tests()
    test_counts(tests)
    test_reasons(tests)
    programs = ("clang-19", "llvm-profdata-19", "llvm-cov-19", "llvm-cxxfilt-19")
    missing = [name for name in programs if shutil.which(name) is None]
    if not missing:
        with tempfile.TemporaryDirectory(prefix="hakmem-coverage.") as name:
            test_whole(tests, pathlib.Path(name))
    print(f"coverage self-test: {tests.run} checks, {tests.wrong} not as expected")
    if tests.wrong == 0 and missing:
        print(f"skipped: {', '.join(missing)} not installed, so no program was counted: run ci/setup")
        return 77
    return 1 if tests.wrong else 0


sys.exit(self_test())
