"""The lines of a source that ci/replay must name, for its tests. Comments mark them: guilty, also guilty, guilty
function (any line of it), also guilty function. A colon and more words may follow."""

import os
import re

MARK = re.compile(r"/\* (also )?guilty( function)?(?:: [^*]*)? \*/")
HEAD = re.compile(r"\s*\w[\w *:&<>~]*?([\w~]+)\(.*\)(?: const| noexcept| override|\(false\))*$")
ONE_LINE = re.compile(r"\s*\w[\w *:&<>~]*?([\w~]+)\([^()]*\)(?: const| noexcept| override)* \{ .*\}$")


def function_of(lines, number):
    """The name of the function that contains a line: that of this line, or the last one before it whose brace
    has its own line."""
    match = ONE_LINE.match(MARK.sub("", lines[number - 1]))
    if match:
        return match[1]
    for at in range(number - 1, 0, -1):
        match = HEAD.match(lines[at - 1])
        if match and lines[at].strip() == "{":
            return match[1]
    return None


def marks(source):
    """For each mark: (function, line, whether any line of the function counts); the mark without "also" comes first."""
    with open(source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        match = MARK.search(line)
        if match:
            found.append((bool(match[1]), function_of(lines, number), number, bool(match[2])))
    if any(function is None for _, function, _, _ in found):
        raise ValueError(f"{source}: a mark outside of a function")
    return [one[1:] for one in sorted(found, key=lambda one: one[0])]


def plain(name):
    """A function's name without scope, parameters and template arguments: Plan::add(char const*) is add."""
    name = re.sub(r"\(anonymous namespace\)", "", name or "").split("(")[0].split("<")[0]
    name = re.sub(r"\.(constprop|isra|part|cold)(\.\d+)?", "", name)  # gcc's copies of a function
    return name.split("::")[-1].strip()


def same_file(path, source):
    """Whether a frame's file is the source. An object from ccache may have been compiled in another checkout; then the
    last folders are the same."""
    path, source = os.path.realpath(path or "/"), os.path.realpath(source)
    return path == source or path.split(os.sep)[-3:] == source.split(os.sep)[-3:]


def is_marked(source, function, path, line):
    """Whether a frame's function, file and line are one of the source's marks."""
    if not same_file(path, source):
        return False
    return any(plain(function) == name and (anywhere or line == number) for name, number, anywhere in marks(source))
