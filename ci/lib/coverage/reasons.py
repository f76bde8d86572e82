"""Matches ci/coverage.reasons, whose head describes the format, with the ranges of lines that no test reached.
"""

import dataclasses

BY_CHANCE = "by chance: "


class BadReasons(Exception):
    """A line of the file cannot be read; the text says which, and how to correct it."""


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
class Reason:
    where: str  # line in the file of reasons, for messages
    path: str
    pattern: str
    text: str

    def function(self):
        """The function's name, if the pattern is name()."""
        return self.pattern[:-2] if self.pattern.endswith("()") and " " not in self.pattern else None

    def is_for(self, span, source):
        if self.pattern == "*":
            return True
        if self.function() is not None:
            return self.function() == span.function
        return any(self.pattern in line for line in source[span.first - 1 : span.last])

    def is_known(self, source, functions):
        """Whether the file has this place at all."""
        if self.pattern == "*":
            return True
        if self.function() is not None:
            return self.function() in functions
        return any(self.pattern in line for line in source)


def parse(text, name):
    reasons = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ", 2)]
        if len(parts) != 3 or not all(parts):
            raise BadReasons(f"{name}:{number}: not FILE | PLACE | REASON: {line}")
        reasons.append(Reason(f"{name}:{number}", *parts))
    return reasons


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


def explain(missed, reasons, files, sources):
    """Gives each Range the first reason that fits; returns a line for each stale reason. files: {path: File}; sources:
    {path: list of lines}."""
    used = set()
    for span in missed:
        for reason in reasons:
            if reason.path == span.path and reason.is_for(span, sources[span.path]):
                span.reason = span.reason or reason.text
                used.add(reason.where)
    stale = []
    for reason in reasons:
        if reason.path not in files:
            stale.append(f"{reason.where}: no code of {reason.path} was built")
        elif not reason.is_known(sources[reason.path], files[reason.path].functions.values()):
            stale.append(f"{reason.where}: {reason.path} has no '{reason.pattern}'")
        elif reason.where not in used and not reason.text.startswith(BY_CHANCE):
            stale.append(f"{reason.where}: {reason.path} '{reason.pattern}' is reached after all: take the line out")
    return stale
