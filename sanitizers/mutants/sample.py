"""Which mutants ci/mutants --general and --changed try: the sets of files with the tests that try them, and the sample."""

import collections
import dataclasses
import hashlib
import pathlib
import re

import operators
import schemata
from mutant_copy import Stop, first_line, git, tracked


@dataclasses.dataclass(frozen=True)
class Tests:
    """What must be built for some tests, and their names."""

    targets: tuple
    names: str  # expression
    changed: str  # expression: --changed uses them for files that fit


@dataclasses.dataclass(frozen=True)
class Set:
    folders: tuple
    files: str  # expression
    left_out: str
    tests: tuple
    least: float  # share that must be killed

    def for_changed(self, files):
        """Without the tests that are built for other files."""
        fit = tuple(each for each in self.tests if any(re.search(each.changed, name) for name in files))
        return dataclasses.replace(self, tests=fit)

    def targets(self):
        return list(dict.fromkeys(target for each in self.tests for target in each.targets))

    def names(self):
        return "|".join(each.names for each in self.tests)


SETS = {
    "alloc": Set(
        ("alloc",),
        r"\.[ch]$",
        # in no program of the tree, or part of a test
        r"_test|test_support|litmus/|/include/|programs/|os/sanitizer|debug/sanitizer_report|os_fault|os_pages|pgo/",
        (
            # pages.*: suites of unit-release again, as if the system had larger pages; Profile.seeds: one again, 50 times
            Tests(
                ("alloc-programs", "hakmem", "hakmem-validate"),
                r"^(unit|unit-release|program|link|override)/(?!libc$|pages[.]|Profile[.]seeds)",
                "",
            ),
            Tests(("misuse-programs", "hakmem-validate"), r"^misuse[.][a-z_]+[.][12]([.]goes-on)?$", ""),
            Tests(
                ("hakmem-explore",),
                r"^explore[.]two_threads$",
                r"alloc/(base|superslab|slab|cache|guard|profile|heap)/",
            ),
            Tests(
                ("hakmem", "hakmem-validate", "hakmem-stress", "stress/crash/all"),
                r"^crash[.](hakmem|hakmem-validate|static|guard|guard-static)$",
                r"alloc/(report|guard|crash)/",
            ),
            Tests(("loading-programs",), r"^loading[.]dlmopen[.]", r"alloc/cache/thread"),
            Tests(
                ("hakmem", "hakmem-validate", "hakmem-stress", "conform-files"),
                r"^conform[.](hakmem|validate)$|"
                r"^stress[.](larson|random-mixed|remote-free)[.](hakmem|validate)[.](os|seeded)$",
                r"$^",
            ),
        ),
        0.95,
    ),
    "suite": Set(
        ("stress/engine/judge", "stress/engine/seat", "stress/engine/op", "stress/program"),
        r"\.cc$",
        r"_test|for_test|minimise|fold",
        (
            Tests(
                ("hakmem", "hakmem-validate", "write-faults", "stress/all"),
                r"^stress-unit[.](?!report-browser|Soak)|^conform-unit[.]Conform|^corpus[.]|"
                r"^stress[.](larson|random-mixed|remote-free)[.]hakmem[.](os|seeded)$|^inject[.]calls[.]few",
                "",
            ),
        ),
        0.90,
    ),
}


def files_of(chosen, root):
    return sorted(
        name
        for name in tracked(root)
        if name.startswith(tuple(f"{folder}/" for folder in chosen.folders))
        and re.search(chosen.files, name)
        and not re.search(chosen.left_out, name)
    )


def near_suites(root, files):
    """The suites of GoogleTest whose file lies beside one of these files, or includes a header of their names."""
    folders = {str(pathlib.Path(name).parent) for name in files}
    headers = {re.sub(r"^(alloc|stress)/|[.]\w+$", "", name) for name in files}
    found = set()
    for name in tracked(root):
        if not name.endswith("_test.cc"):
            continue
        text = (pathlib.Path(root) / name).read_text(encoding="utf-8")
        if str(pathlib.Path(name).parent) in folders or headers & set(
            re.findall(r'(?m)^#include "([\w/]+)[.]h"', text)
        ):
            found.update(re.findall(r"(?m)^TEST(?:_[FP])?\((\w+),", text))
    return found


def all_mutants(chosen, root):
    """{file: mutants}"""
    sources = [name for name in tracked(root) if name.startswith(chosen.folders) and re.search(r"\.(c|cc|h)$", name)]
    sources = [name for name in sources if "_test" not in name]
    known = operators.effects_of({name: (pathlib.Path(root) / name).read_bytes() for name in sources})
    found = {
        name: operators.mutants_of(name, (pathlib.Path(root) / name).read_bytes(), known)
        for name in files_of(chosen, root)
    }
    return {name: mutants for name, mutants in found.items() if mutants}


def in_turn(mutants, seed):
    """A file's mutants in the order in which they are drawn: an operator after the other, each by chance."""

    def chance(mutant):
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    by_operator = collections.defaultdict(list)
    for each in sorted(mutants, key=chance):
        by_operator[each.operator].append(each)
    names = sorted(by_operator, key=lambda name: chance(by_operator[name][0]))
    most = max(map(len, by_operator.values()))
    return [by_operator[name][at] for at in range(most) for name in names if at < len(by_operator[name])]


def shares(sizes, count):
    """How many of count each file gives: by its number of mutants, by the largest rest, and one at least while there are
    enough."""
    total = sum(sizes.values())
    exact = {name: count * size / total for name, size in sizes.items()}
    given = {name: min(sizes[name], max(int(exact[name]), int(count >= len(sizes)))) for name in sizes}
    for name in sorted(sizes, key=lambda name: (int(exact[name]) - exact[name], name)):
        if sum(given.values()) < count and given[name] < sizes[name]:
            given[name] += 1
    for name in sorted(sizes, key=lambda name: -given[name]):
        while sum(given.values()) > count and given[name] > 1:
            given[name] -= 1
    return given


def pick(candidates, count, check):
    """Up to count of them that do not cross and that compile, as check(list) says."""
    kept, waiting = [], list(candidates)
    while waiting and len(kept) < count:
        fresh = []
        while waiting and len(kept) + len(fresh) < count:
            each = waiting.pop(0)
            if not any(schemata.conflicts(each, other) for other in kept + fresh):
                fresh.append(each)
        kept = check(kept + fresh)
    return kept


def changed_lines(root, commit):
    """{file: set of lines} that differ from the commit, as they are now."""
    done = git(root, "diff", "-U0", "--no-color", "--no-ext-diff", commit)
    if done.returncode != 0:
        raise Stop(f"--changed {commit}: {first_line(done.stderr)}")
    found, name = collections.defaultdict(set), ""
    for line in done.stdout.splitlines():
        if line.startswith("+++ "):
            name = line[6:]
        part = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if part:
            found[name] |= set(range(int(part[1]), int(part[1]) + int(part[2] or 1)))
    return found
