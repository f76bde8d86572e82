"""Finds tests that a program skipped inside a test of ctest that passed. One test of ctest can be a whole suite of
GoogleTest (alloc/tests.cmake) or of unittest, which end with status 0 even if they skipped everything.
"""

import re

DONE = re.compile(r"\[ +(OK|SKIPPED) +\] ([\w./]+) \(\d+ ms\)")
BEGUN = "[ RUN      ] "
UNITTEST = re.compile(r"^(\w+)\b.* \.\.\. (?:(ok)|skipped (['\"])(.*)\3)$", re.MULTILINE)
CUT = re.compile(r"\[This part of the test output was removed since it exceeds the threshold of (\d+) bytes")


def gtest_reason(output):
    """The reason in one test's output: the text given to GTEST_SKIP(), or else the place of the call."""
    lines = [line.strip() for line in output.splitlines()]
    for index, line in enumerate(lines):
        if line.endswith(": Skipped"):
            return next(filter(None, lines[index + 1 :]), f"no reason given, {line}")
    return "no reason given"


def of(output):
    """([(test, reason)] of skipped tests, number of tests that ran)."""
    skipped, ran = [], 0
    for match in DONE.finditer(output):
        if match[1] == "OK":
            ran += 1
        else:
            begin = output.rfind(BEGUN + match[2], 0, match.start())
            skipped.append((match[2], gtest_reason(output[max(begin, 0) : match.start()])))
    for match in UNITTEST.finditer(output):
        if match[2]:
            ran += 1
        else:
            skipped.append((match[1], match[4]))
    return skipped, ran


def cut_at(output):
    """The number of bytes after which ctest cut the output, or None."""
    match = CUT.search(output)
    return match and int(match[1])
