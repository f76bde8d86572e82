"""Matches the marks of alloc/ with the ranges of lines that no test reached. A mark is a comment of C or C++:

    unreached: WHY         in a function: the range that has the mark's line or the next one; outside, above a function:
                           each range in that function
    unreached file: WHY    each range in the file

WHY begins with "by chance: " if only some runs reach the lines, for example where two threads have to meet. A mark whose
lines tests do reach is stale, which is an error.
"""

import dataclasses
import re

BY_CHANCE = "by chance: "
MARK = re.compile(r"/\* unreached( file)?: (.*?)\s*\*/|// unreached( file)?: ([^\n]*)", re.DOTALL)


@dataclasses.dataclass
class Range:
    """A range of lines of one function that nothing reached. It includes lines without code in between."""

    path: str
    first: int
    last: int
    function: str
    lines: int
    reason: str = ""


@dataclasses.dataclass
class Mark:
    path: str
    line: int  # its last
    of_file: bool
    text: str

    def is_for(self, span, functions):
        if self.of_file or function_of(self.line, functions):
            return self.of_file or span.first - 1 <= self.line <= span.last
        below = [(first, name) for (first, _), name in functions.items() if first > self.line]
        return bool(below) and min(below)[1] == span.function


def marks(path, text):
    return [
        Mark(
            path,
            text.count("\n", 0, found.end()) + 1,
            bool(found[1] or found[3]),
            " ".join((found[2] or found[4]).split()),
        )
        for found in MARK.finditer(text)
    ]


def function_of(line, functions):
    """The innermost function of {(first, last): name} that contains the line."""
    around = [(last - first, name) for (first, last), name in functions.items() if first <= line <= last]
    return min(around)[1] if around else ""


def ranges(path, file):
    """The Ranges in a File of counts.py."""
    found, open_range = [], None
    for line, count in sorted(file.lines.items()):
        function = function_of(line, file.functions)
        if count > 0:
            open_range = None
        elif open_range is not None and open_range.function == function:
            open_range.last = line
            open_range.lines += 1
        else:
            open_range = Range(path, line, line, function, 1)
            found.append(open_range)
    return found


def explain(missed, given, files):
    """Gives each Range the first mark that fits; returns a line for each stale mark. files: {path: File}."""
    stale = []
    for mark in given:
        spans = [span for span in missed if span.path == mark.path and mark.is_for(span, files[mark.path].functions)]
        for span in spans:
            span.reason = span.reason or mark.text
        if not spans and not mark.text.startswith(BY_CHANCE):
            stale.append(f"alloc/{mark.path}:{mark.line}: 'unreached: {mark.text}' is reached after all: take it out")
    return stale
