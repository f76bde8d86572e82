"""Reads which code ran from llvm-cov's two exports of one profile. Lines come from lcov, which adds up the counts of
all inlined copies. Branches come from JSON, which keeps the copies of a condition apart by place, so that they can be
joined. The profile covers all objects, but there is an export for each object: given two objects, llvm-cov takes a
function from the first, where it may be dead.
"""

import collections
import json
import re


class File:
    """lines: {line: count}. branches: {place: [times true, times false]}. functions: {(first, last line): name}. ran:
    those functions that were called."""

    def __init__(self):
        self.lines = {}
        self.branches = {}
        self.functions = {}
        self.ran = set()

    def lines_hit(self):
        return sum(count > 0 for count in self.lines.values())

    def branches_all(self):
        return 2 * len(self.branches)

    def branches_hit(self):
        return sum(count > 0 for counts in self.branches.values() for count in counts)


def read_lines(text, files):
    """Reads lcov's DA records into files, a defaultdict of File by path."""
    path = None
    for record in text.splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            path = value
        elif kind == "DA":
            line, count = value.split(",")[:2]
            lines = files[path].lines
            lines[int(line)] = lines.get(int(line), 0) + int(count)


def place(branch, expansions):
    """The place of a condition: file number, then the positions from the outermost use of a macro to the condition
    itself. All copies of a condition in a macro body have the same last position, and differ in the use."""
    number, chain = branch[6], [tuple(branch[:4])]
    while number in expansions:
        position, number = expansions[number]
        chain.append(position)
    return number, tuple(reversed(chain))


def plain_name(name):
    """The plain, demangled name of a function in the export: without file (of static functions), namespace and
    parameters."""
    name = re.sub(r"^[^:()]*\.(c|cc|h):(?!:)", "", name).replace("(anonymous namespace)::", "")
    return name if name.startswith("operator()") else name.partition("(")[0]


def read_branches(export, files):
    """Reads branches and functions from llvm-cov's JSON into files. The JSON leaves out conditions that are constant in
    a build; and a copy of a function that no object emitted has no branches. An outcome counts if any copy saw it."""
    for function in export["data"][0]["functions"]:
        names = function["filenames"]
        # Region: first line, column, last line, column, count, file number, expanded file's number, kind (1: a macro).
        expansions = {region[6]: (tuple(region[:4]), region[5]) for region in function["regions"] if region[7] == 1}
        own = function["regions"][0]
        file = files[names[own[5]]]
        file.functions[(own[0], own[2])] = plain_name(function["name"])
        if function["count"] > 0:
            file.ran.add((own[0], own[2]))
        for branch in function["branches"]:
            number, chain = place(branch, expansions)
            counts = files[names[number]].branches.setdefault(chain, [0, 0])
            counts[0] += branch[4]
            counts[1] += branch[5]


def join(into, files):
    """Joins what another object has: a line or an outcome is reached if either object reached it. For a function that
    an object dropped, it counts comments as lines; if the other object ran the function, its lines are taken."""
    for path, file in files.items():
        known = into[path]
        for one, other in ((known, file), (file, known)):
            inside = {line for first, last in one.ran for line in range(first, last + 1)}
            other.lines = {
                line: count for line, count in other.lines.items() if line in one.lines or line not in inside
            }
        known.ran |= file.ran
        for line, count in file.lines.items():
            known.lines[line] = max(count, known.lines.get(line, 0))
        for chain, counted in file.branches.items():
            known.branches[chain] = [max(pair) for pair in zip(counted, known.branches.get(chain, [0, 0]))]
        known.functions.update(file.functions)


def read(exports, prefix):
    """{path below prefix: File} for the files there that have functions, in order, from each object's pair of texts,
    lcov and JSON. Lines outside of functions are bodies of macros; they count where they are used."""
    files = collections.defaultdict(File)
    for lcov_text, json_text in exports:
        of_object = collections.defaultdict(File)
        read_lines(lcov_text, of_object)
        read_branches(json.loads(json_text), of_object)
        join(files, of_object)
    for file in files.values():
        inside = {line for first, last in file.functions for line in range(first, last + 1)}
        file.lines = {line: count for line, count in file.lines.items() if line in inside}
    return {path[len(prefix) :]: file for path, file in sorted(files.items()) if path.startswith(prefix) and file.lines}


def lcov(files, prefix):
    """The joined counts as an lcov tracefile."""
    records = []
    for path, file in files.items():
        records.append(f"SF:{prefix}{path}")
        # Each name once: an inlined function has a copy for each source file.
        names = {name: first for (first, _), name in sorted(file.functions.items(), reverse=True)}
        records += [f"FN:{first},{name}" for name, first in sorted(names.items(), key=lambda pair: pair[1])]
        records += [f"FNDA:{file.lines.get(first, 0)},{name}" for name, first in names.items()]
        for block, (chain, counts) in enumerate(sorted(file.branches.items())):
            records += [f"BRDA:{chain[0][0]},{block},{outcome},{count}" for outcome, count in enumerate(counts)]
        records += [f"BRF:{file.branches_all()}", f"BRH:{file.branches_hit()}"]
        records += [f"DA:{line},{count}" for line, count in sorted(file.lines.items())]
        records += [f"LF:{len(file.lines)}", f"LH:{file.lines_hit()}", "end_of_record"]
    return "\n".join(records) + "\n"
