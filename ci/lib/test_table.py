"""usage: test_table.py [--slow | --brief] ROOT TREE...

Prints the table of ci/test from build/TREE/junit.xml (by ctest) and build/TREE/ci-status (by ci/test: what went wrong
outside of a test). Counts a tree without a result as one failure. Exit status 1 if anything failed.

A test that passed may have skipped some of its parts: see suite_skips.py. If it skipped all, it counts as skipped;
otherwise it counts as passed, and its skipped parts are counted and listed separately. If its output was cut, nobody
can know, and the test counts as failed.

--slow: lists the tests that take more than SLOW_SECONDS without a reason in ci/tiers.
--brief: skips within tests that passed are listed in build/TREE/skips.txt, and one line says how many there are.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as xml

import select_tests
import suite_skips

SLOW_SECONDS = 5
SKIPS = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION", "Disabled")


def reason(message, output):
    """Why a test was skipped: the line that it printed, or else ctest's message."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if re.search(r": Skipped$", line) and index + 1 < len(lines):  # GTEST_SKIP() << reason
            return lines[index + 1]
    for line in reversed(lines):
        if re.search(r"\bskip", line, re.IGNORECASE) and not line.startswith("["):
            return re.sub(r"^.*?\bskipped:\s*", "", line)
    return f"{lines[-1]} ({message})" if lines else f"no reason given ({message})"


class Tree:
    def __init__(self, root, name):
        self.name = name
        self.seconds = 0.0
        self.passed = 0
        self.failed = []
        self.skipped = {}
        self.within = {}
        self.slow = []
        folder = root / "build" / name
        status = folder / "ci-status"
        trouble = status.read_text(encoding="utf-8").strip() if status.exists() else ""
        self.empty = trouble.startswith("none:")
        if (folder / "junit.xml").exists():
            for case in xml.parse(folder / "junit.xml").getroot().iter("testcase"):
                self.case(case)
        if trouble and not self.empty and not self.failed:
            self.failed.append(trouble)
        if not trouble and self.run() == 0:
            self.failed.append("no test ran")

    def case(self, case):
        name = case.get("name").split("  # ")[0]  # without the parameter that GoogleTest appends
        seconds = float(case.get("time") or 0)
        self.seconds += seconds
        if seconds > SLOW_SECONDS:
            self.slow.append((seconds, name))
        skip = case.find("skipped")
        message = skip.get("message") or "" if skip is not None else ""
        if case.get("status") == "run" and skip is None and case.find("failure") is None:
            self.case_passed(name, case.findtext("system-out") or "")
        elif skip is not None and message.startswith(SKIPS):
            text = reason(message, case.findtext("system-out") or "")
            self.skipped.setdefault(text, []).append(name)
        else:
            failure = case.find("failure")
            text = failure.get("message") if failure is not None else message or case.get("status")
            self.failed.append(f"{name}: {text or 'failed'}")

    def case_passed(self, name, output):
        cut = suite_skips.cut_at(output)
        if cut is not None:
            self.failed.append(
                f"{name}: passed, but its output was cut at {cut} bytes, so what it skipped is not known: "
                "raise --test-output-size-passed in ci/test"
            )
            return
        skipped, ran = suite_skips.of(output)
        if skipped and ran == 0:
            text = "; ".join(dict.fromkeys(text for _, text in skipped))
            self.skipped.setdefault(text, []).append(name)
            return
        self.passed += 1
        folder, _, suite = name.rpartition("/")
        for test, text in skipped:
            whole = f"{folder}/{test}" if test.startswith(f"{suite}.") else f"{name}: {test}"
            self.within.setdefault(text, []).append(whole)

    def skips(self):
        return sum(map(len, self.skipped.values()))

    def skips_within(self):
        return sum(map(len, self.within.values()))

    def run(self):
        return self.passed + len(self.failed) + self.skips()


def tell_skips(what, skipped, out=sys.stdout):
    for text, names in sorted(skipped.items()):
        print(f"{what}, {len(names)}: {text}", file=out)
        print(f"    {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}", file=out)


def tell_skips_within(root, tree, brief):
    what = f"skipped within a suite of {tree.name}"
    if not brief or not tree.within:
        tell_skips(what, tree.within)
        return
    file = f"build/{tree.name}/skips.txt"
    with (root / file).open("w", encoding="utf-8") as out:
        tell_skips(what, tree.within, out)
    print(f"{what}, {tree.skips_within()}: see the reasons in {file}")


def tell_slow(trees):
    table = select_tests.rows()
    for tree in trees:
        names = [
            f"{name} {seconds:.0f} s" for seconds, name in tree.slow if not select_tests.row_of(table, tree.name, name)
        ]
        if names:
            print(f"above {SLOW_SECONDS} s without a row in ci/tiers, in {tree.name}: {', '.join(names)}")


def main():
    arguments = sys.argv[1:]
    option = arguments.pop(0) if arguments[0] in ("--slow", "--brief") else ""
    root = pathlib.Path(arguments[0])
    trees = [Tree(root, name) for name in arguments[1:]]
    none_ran = all(tree.run() == 0 for tree in trees)
    print()
    print(f"{'tree':12} {'run':>5} {'passed':>7} {'failed':>7} {'skipped':>8} {'within':>7} {'seconds':>8}  logs")
    for tree in trees:
        logs = f"build/{tree.name}/Testing" if not tree.empty else "no test with this label"
        print(
            f"{tree.name:12} {tree.passed + len(tree.failed):5} {tree.passed:7} {len(tree.failed):7} {tree.skips():8} "
            f"{tree.skips_within():7} {tree.seconds:8.1f}  {logs}"
        )
    for tree in trees:
        tell_skips(f"skipped in {tree.name}", tree.skipped)
        tell_skips_within(root, tree, option == "--brief")
    if option == "--slow":
        tell_slow(trees)
    for tree in trees:
        for text in tree.failed:
            print(f"FAILED in {tree.name}: {text}")
    failed = sum(len(tree.failed) for tree in trees)
    if none_ran:
        print("FAILED: no tree has a test with this label")
        failed += 1
    print(
        f"{sum(tree.passed for tree in trees)} passed, {failed} failed, {sum(tree.skips() for tree in trees)} skipped, "
        f"{sum(tree.skips_within() for tree in trees)} skipped within a suite"
    )
    return 1 if failed else 0


sys.exit(main())
