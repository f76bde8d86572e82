"""usage: test_table_self_test.py

Runs a tree of small tests with ctest, in the way that ci/test does. Each must appear in ci/test's table as it is listed
here. Exit status 1 if one does not.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def gtest(*tests):
    """The output of a GoogleTest program; each test is (name, reason or None)."""
    text = "Running main() from gtest_main.cc\n[==========] Running tests.\n"
    for name, reason in tests:
        text += f"[ RUN      ] {name}\n"
        text += (
            f"/r/a_test.cc:7: Skipped\n{reason}\n[  SKIPPED ] {name} (0 ms)\n"
            if reason is not None
            else f"[       OK ] {name} (3 ms)\n"
        )
    skipped = [name for name, reason in tests if reason is not None]
    if skipped:
        text += f"[  SKIPPED ] {len(skipped)} tests, listed below:\n" + "".join(
            f"[  SKIPPED ] {each}\n" for each in skipped
        )
    return text


# unittest prints a reason as Python would write it.
REASONS = ["pages of 65536 bytes", "no one's business", 'a "word"']
UNITTEST = (
    "".join(
        f"test_{index} (__main__.Guard.test_{index}) ... skipped {reason!r}\n" for index, reason in enumerate(REASONS)
    )
    + f"test_after (__main__.Guard.test_after) ... ok\n\nOK (skipped={len(REASONS)})\n"
)
# Each row: name, output, exit status, and more text for CTestTestfile.cmake.
SKIPS_77 = "set_tests_properties({} PROPERTIES SKIP_RETURN_CODE 77)\n"
TESTS = [
    ("unit/All", gtest(("All.One", None), ("All.Two", None)), 0, ""),
    ("unit/Part", gtest(("Part.One", None), ("Part.Two", "why not\nand more"), ("Part.Three", "")), 0, ""),
    ("override/libc", gtest(("Names.One", None), ("Names.Two", "why not")), 0, ""),
    # A test's output may lack the final newline.
    (
        "unit/None",
        gtest(("None.One", "not here"), ("None.Two", "nor there")).replace(
            "[  SKIPPED ] None.One (", "seed[  SKIPPED ] None.One ("
        ),
        0,
        "",
    ),
    ("unit/Parameters", gtest(("All/Parameters.One/0", None), ("All/Parameters.One/1", "odd")), 0, ""),
    # Of a test that is run again, and of one whose name begins as another's: each has its own reason.
    ("unit/Twice", gtest(("Twice.OneMore", "more"), ("Twice.One", None)) + gtest(("Twice.One", "again")), 0, ""),
    ("unit/Failed", gtest(("Failed.One", None), ("Failed.Two", "why not")), 1, ""),
    ("crash.guard", UNITTEST, 0, ""),
    ("plain", "skipped: a word of a test that ran\n", 0, ""),
    ("whole", "whole: skipped: no gdb\n", 77, SKIPS_77),
    ("unit/Gone", "", 0, 'set_tests_properties({} PROPERTIES REQUIRED_FILES "/no/such/file")\n'),
    ("long", "1234567890\n" * 10_000 + gtest(("Long.One", None), ("Long.Two", "at the end")), 0, ""),
]
EXPECTED = """\
toy 10 8 2 2 10 build/toy/Testing
skipped in toy, 1: no gdb | whole
skipped in toy, 1: not here; nor there | unit/None
skipped within a suite of toy, 1: a "word" | crash.guard: test_2
skipped within a suite of toy, 1: again | unit/Twice.One
skipped within a suite of toy, 1: at the end | long: Long.Two
skipped within a suite of toy, 1: more | unit/Twice.OneMore
skipped within a suite of toy, 1: no one's business | crash.guard: test_1
skipped within a suite of toy, 1: no reason given, /r/a_test.cc:7: Skipped | unit/Part.Three
skipped within a suite of toy, 1: odd | unit/Parameters: All/Parameters.One/1
skipped within a suite of toy, 1: pages of 65536 bytes | crash.guard: test_0
skipped within a suite of toy, 2: why not | unit/Part.Two, override/libc: Names.Two
FAILED in toy: unit/Failed: failed
FAILED in toy: unit/Gone: Required Files Missing
8 passed, 2 failed, 2 skipped, 10 skipped within a suite
"""


def options():
    """The options by which ci/test makes ctest keep the output of passed tests."""
    text = (HERE.parent / "test").read_text(encoding="utf-8")
    return re.search(r"--test-output-size-passed \d+", text)[0].split()


def table(root, keep, *more):
    """Runs the tests with ctest; returns (exit status, the table in short)."""
    folder = root / "build" / "toy"
    subprocess.run(
        ["ctest", "--test-dir", folder, "--output-junit", folder / "junit.xml", *keep], capture_output=True, check=False
    )
    done = subprocess.run(
        [sys.executable, "-B", HERE / "test_table.py", *more, root, "toy"], capture_output=True, text=True, check=False
    )
    text = re.sub(r" \d+\.\d ", " ", done.stdout + done.stderr)
    text = re.sub(r"\n    ", " | ", text)
    return done.returncode, "".join(
        re.sub(r" +", " ", line) + "\n" for line in text.splitlines() if line and not line.startswith("tree ")
    )


def main():
    problems = []
    with tempfile.TemporaryDirectory(prefix="hakmem-table-") as name:
        root = pathlib.Path(name)
        folder = root / "build" / "toy"
        folder.mkdir(parents=True)
        lines = ""
        for number, (test, text, status, more) in enumerate(TESTS):
            (folder / f"{number}.txt").write_text(text, encoding="utf-8")
            lines += f'add_test({test} "sh" "-c" "cat {folder}/{number}.txt; exit {status}")\n' + more.format(test)
        (folder / "CTestTestfile.cmake").write_text(lines, encoding="utf-8")
        status, text = table(root, options())
        if (status, text) != (1, EXPECTED):
            problems.append(f"exit status {status}, expected\n{EXPECTED}and got\n{text}")
        status, text = table(root, options(), "--brief")
        within = [line for line in EXPECTED.splitlines(True) if line.startswith("skipped within ")]
        brief = EXPECTED.replace(
            "".join(within), "skipped within a suite of toy, NUMBER: see the reasons in build/toy/skips.txt\n"
        )
        text = re.sub(r"(of toy, )\d+(: see)", r"\1NUMBER\2", text)
        kept = (folder / "skips.txt").read_text(encoding="utf-8").replace("\n    ", " | ").splitlines(True)
        if (status, text, kept) != (1, brief, within):
            problems.append(f"--brief: exit status {status}, expected\n{brief}and got\n{text}with {kept}")
        status, text = table(root, ["--test-output-size-passed", "100000"])
        cut = "FAILED in toy: long: passed, but its output was cut at 100000 bytes, so what it skipped is not known"
        if status != 1 or cut not in text or "7 passed, 3 failed" not in text:
            problems.append(f"output that was cut: exit status {status}, and\n{text}")
    for problem in problems:
        print(f"self-test: {problem}")
    print(f"test_table self-test: {len(TESTS)} tests, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
