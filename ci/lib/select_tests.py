"""usage: select_tests.py BUILD TREE TIER [--label REGEX]... [--match REGEX]... [--except REGEX]

Prints the numbers of the tests in the build folder BUILD that belong to a tier ("default", "all", or "changed": any)
according to ci/tiers, in the form that ctest -I reads from a file; prints nothing if there is none. --label, --match:
only tests with a label, or a name, that each expression finds; --except: without those whose name it finds.

    select_tests.py --changed COMMIT

Prints what the changes since COMMIT can affect in the tree release, in three lines: targets to build, a regular
expression for --match, the changed files. CHANGES decides this by folder: what is compiled from a file, and what was
written to test it.

    select_tests.py --lint BUILD TREE

Prints the stale rows of ci/tiers, with exit status 1: a row for the tree is stale if it decides no test. Exit status 77
if a test program is not built, whose tests nobody knows then.
"""

import argparse
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

TIERS = pathlib.Path(__file__).resolve().parents[1] / "tiers"
NIGHTLY = {"soak", "nightly"}
ROOT = TIERS.parents[1]

# A pattern of paths, what to build for them, and the tests to run. Lints run for every change, but for those of what the heap
# costs, and for their own tests. What takes long and is left to --all by ci/tiers is left out here too, unless the change is in
# the folder that it tests. A change of the heap has one preemption of the explorer and three rows of the counts: with the rest
# it would take three times as long, and the default tier has it.
LINTS = r"lint[.](?!bench_|growth|contention|workflows|.*_self_test$|orders_judging)"
LONG = r"(?!.*(Profile[.]seeds$|[./]pages[.]|ForkEveryStep[.]all$|-pprof$))"
# What a process asks of the system and of libc, and what it shows to others. The QUIET folders ask nothing: all that they need
# comes from other folders of alloc/. ci/lint/changed_seconds checks that.
OUTSIDE = r"override/(.*-(filter|profile|stats|hooked\S*)|modules|interpose)$"
QUIET = "base|superslab|slab"
HARNESSES = r"stress[.](larson|random-mixed|remote-free)[.](hakmem|validate)[.](os|seeded)$"
SUITE = r"stress-unit[.](?!Canary|OtherScenarios|InjectCanary|report-browser)|stress[.]list$"
CHANGES = [
    (
        r"alloc/",
        "alloc-programs hakmem hakmem-validate hakmem-stress hakmem-bench",
        rf"{LONG}(?!{OUTSIDE})(unit|unit-release|program|link|override)/|{HARNESSES}|lint[.]bench_few$",
    ),
    (rf"alloc/(?!({QUIET}|cache|heap|guard)/)", "", OUTSIDE),
    (r"alloc/(heap|guard)/", "", r"override/(.*-(filter|hooked)|interpose)$"),
    (r"alloc/cache/", "", r"override/interpose$"),
    (r"alloc/profile/", "", r"override/.*-pprof$"),
    (r"alloc/os/", "", r"(unit-release|program)/.*pages[.]"),
    (r"[.]github/", "", r"lint[.]workflows"),
    (r"alloc/(report|debug|slab)/", "misuse-programs", r"misuse[.]\w+[.][12]$"),
    (r"alloc/guard/", "guard-program", r"crash[.]guard$"),
    (r"alloc/crash/", "crash-program", r"crash[.](hakmem|static)$"),
    (r"alloc/(slab|superslab|cache)/", "hakmem-explore", r"explore[.]one_preemption$"),
    (r"alloc/(heap|control|entry)/|stress/conform/", "hakmem-stress", r"conform[.]hakmem$"),
    (r"stress/conform/", "conform-test", r"conform-unit[.]"),
    (r"stress/(?!misuse|explore|order|bench|crash)", "hakmem-stress stress-test", rf"{SUITE}|{HARNESSES}"),
    (r"stress/scenario/", "hakmem-stress", r"stress[.].*[.]hakmem[.]"),
    (r"stress/canary/", "stress-test", r"stress-unit[.](Canary|OtherScenarios|InjectCanary)"),
    (
        r"stress/inject/",
        "hakmem-stress stress-test",
        r"inject[.](space[.]hakmem|signals[.]hakmem|calls[.]hakmem[.]few)$|stress-unit[.]InjectCanary",
    ),
    (r"stress/explore/", "hakmem-explore explore-test", r"explore-unit[.]|explore[.](command|two_threads)$"),
    (r"stress/order/", "stress/order/all", r"order[.]|lint[.]contention$"),
    (
        r"stress/bench/|ci/bench|ci/lint/(counts|growth)",
        "hakmem hakmem-bench hakmem-stress",
        r"bench[.]|lint[.](bench_|growth|contention)",
    ),
    (r"stress/bench/[^/]*$", "stress-test", r"stress-unit[.]Commands[.]Speed"),
    (r"stress/misuse/", "hakmem hakmem-validate misuse-programs", r"misuse[.]"),
    (r"fuzz/|ci/fuzz|corpus/|stress/program/", "fuzz fuzz-test fuzz-machine-test hakmem-stress", r"fuzz|corpus[.]"),
    (r"(ci|sanitizers)/", "", r"lint[.](.*_self_test|orders_judging)$"),
    (r"sanitizers/|ci/mutants", "hakmem", r"mutants[.]subset$"),
    (
        r"stress/crash/|ci/replay|stress/record/",
        "hakmem hakmem-validate hakmem-stress crash-program replay-calls programs",
        r"crash[.](hakmem|replay-driver[.]input|programs)$|crash[.]program[.](next_block|copied_null)$",
    ),
    (r"ci/apps/", "hakmem hakmem-validate", r"apps[.](python|redis|sqlite)[.]"),
]


class Row:
    def __init__(self, line):
        self.tier, self.tree, pattern, self.reason = line.split(None, 3)
        if self.tier not in ("default", "all"):
            sys.exit(f"ci/tiers: '{self.tier}' is no tier: write default or all")
        self.pattern = pattern
        self.regex = re.compile(pattern)

    def fits(self, tree, name):
        return fnmatch.fnmatch(tree, self.tree) and self.regex.match(name)


def rows():
    lines = TIERS.read_text(encoding="utf-8").splitlines()
    return [Row(line) for line in lines if line.strip() and not line.startswith(("#", "tree ", "  "))]


def row_of(table, tree, name):
    return next((row for row in table if row.fits(tree, name)), None)


def tests(build):
    """[(number, name, labels)], numbers as ctest counts."""
    listed = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, check=True, text=True
    )
    found = []
    for number, test in enumerate(json.loads(listed.stdout)["tests"], 1):
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        found.append((number, test["name"].split("  # ")[0], set(properties.get("LABELS", []))))
    return found


def tier_of(table, tree, name, labels):
    if labels & NIGHTLY:
        return "all"
    row = row_of(table, tree, name)
    return row.tier if row else "default"


def lint(build, tree):
    table = rows()
    known = tests(build)
    for _, name, _ in known:
        if name.endswith("_NOT_BUILT") and not name.startswith("fuzz-"):
            print(f"skipped: {name.removesuffix('_NOT_BUILT')} is not built, and its tests are not known")
            return 77
    used = {id(row_of(table, tree, name)) for _, name, labels in known if not labels & NIGHTLY}
    stale = [row for row in table if row.tree == tree and id(row) not in used]
    for row in stale:
        print(f"ci/tiers: no test of the tree {tree} is decided by '{row.tier} {row.tree} {row.pattern}'")
    print(f"{len(table)} rows, {len(stale)} stale in {tree}")
    return 1 if stale else 0


def selection(paths):
    """What to build after a change of these paths, and the expression for --match."""
    targets, matches = ["hakmem", "hakmem-validate"], [LINTS]
    for pattern, built, match in CHANGES:
        if any(re.match(pattern, path) for path in paths):
            targets += built.split()
            matches.append(match)
    return list(dict.fromkeys(targets)), "^(?:" + "|".join(matches) + ")"


def changed(commit):
    git = ["git", "-C", str(ROOT)]
    # Without --no-renames git names only the new path of a file that was moved.
    listed = subprocess.run([*git, "diff", "--no-renames", "--name-only", commit], capture_output=True, text=True)
    if listed.returncode != 0:
        print(f"ci/test: git knows no commit '{commit}'", file=sys.stderr)
        return 2
    others = subprocess.run([*git, "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True)
    paths = sorted(set(listed.stdout.split("\n") + others.stdout.split("\n")) - {""})
    targets, match = selection(paths)
    print(" ".join(targets))
    print(match)
    print(" ".join(paths))
    return 0


def main():
    if sys.argv[1] == "--changed":
        return changed(sys.argv[2])
    if sys.argv[1] == "--lint":
        return lint(*sys.argv[2:4])
    parser = argparse.ArgumentParser(add_help=False)
    for name in ("build", "tree", "tier"):
        parser.add_argument(name)
    parser.add_argument("--label", action="append", default=[])
    parser.add_argument("--match", action="append", default=[])
    parser.add_argument("--except", dest="without", default="^$")
    asked = parser.parse_args()
    table = rows()
    numbers = [
        number
        for number, name, labels in tests(asked.build)
        if all(any(re.search(label, own) for own in labels) for label in asked.label)
        and all(re.search(match, name) for match in asked.match)
        and not re.search(asked.without, name)
        and (asked.tier != "default" or tier_of(table, asked.tree, name, labels) == "default")
    ]
    if numbers:
        print("0,0,0," + ",".join(map(str, numbers)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
